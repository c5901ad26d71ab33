"""Run a program with input and output limits. Blocking, with a deadline."""

import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

MAX_OUTPUT_BYTES = 1 << 20
"""Maximum bytes of standard output; a program that writes more is killed."""

STDERR_BYTES = 4096
"""Bytes kept from the end of standard error."""

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_DATA_HOME"),
    *("MEESEEKS_DATA_DIR", "MEESEEKS_REDIS_URL", "MEESEEKS_URL", "MEESEEKS_TOKEN"),
)
"""Variables passed to programs. All others are removed, so that no secret of the orchestrator leaks."""

_POLL_S = 0.05
_REAP_S = 1.0
"""Seconds that a killed program is waited for; on a busy machine it takes a moment to die."""
_CHUNK = 65_536


class Ending(StrEnum):
    EXITED = "exited"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    TOO_MUCH_OUTPUT = "too_much_output"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """The result of a program. A negative `exit_status` is a signal; `fault` says why the program did not start."""

    ending: Ending
    exit_status: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    fault: str = ""


@dataclass(slots=True)
class ScriptJob:
    """A program that runs in its own session, so that it can be killed with its children.

    `run` returns by `end`, in monotonic seconds.
    """

    path: Path
    given: bytes
    folder: Path | None
    environment: Mapping[str, str]
    end: float
    stop: threading.Event

    def run(self) -> ScriptRun:
        try:
            process = subprocess.Popen(  # noqa: S603 - the user registered this program
                [str(self.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.folder,
                env=dict(self.environment),
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return ScriptRun(Ending.NOT_STARTED, fault=str(error))
        pipes = _Pipes(process, self.given)
        try:
            ending = self._watch(process, pipes)
        finally:
            _kill_group(process)
            pipes.close()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)
        return ScriptRun(ending, process.returncode, bytes(pipes.stdout), bytes(pipes.stderr))

    def _watch(self, process: "subprocess.Popen[bytes]", pipes: "_Pipes") -> Ending:
        """Feed and read the program until it exits; do not wait for its children."""
        while True:
            ended = process.poll() is not None
            left = self.end - time.monotonic()
            read_any = pipes.transfer(0.0 if ended else max(0.0, min(left, _POLL_S)))
            if len(pipes.stdout) > MAX_OUTPUT_BYTES:
                return Ending.TOO_MUCH_OUTPUT
            if ended and not read_any:
                return Ending.EXITED
            if self.stop.is_set():
                return Ending.STOPPED
            if left <= 0:
                return Ending.TIMED_OUT
            if not ended and pipes.silent:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, min(left, _POLL_S)))


class _Pipes:
    """The non-blocking pipes of a program."""

    def __init__(self, process: "subprocess.Popen[bytes]", given: bytes) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.stdout = bytearray()
        self.stderr = bytearray()
        self._given = memoryview(given)
        self._stdin, self._stdout, self._stderr = process.stdin, process.stdout, process.stderr
        self._selector = selectors.DefaultSelector()
        for pipe, events in (
            (self._stdin, selectors.EVENT_WRITE),
            (self._stdout, selectors.EVENT_READ),
            (self._stderr, selectors.EVENT_READ),
        ):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, events)

    @property
    def silent(self) -> bool:
        """Whether both outputs are closed."""
        open_pipes = {key.fileobj for key in self._selector.get_map().values()}
        return not open_pipes & {self._stdout, self._stderr}

    def transfer(self, seconds: float) -> bool:
        """Transfer data, waiting at most `seconds`. Return whether there was output."""
        if not self._selector.get_map():
            return False
        read = False
        for key, _ in self._selector.select(seconds):
            if key.fileobj is self._stdin:
                self._feed()
            elif self._read(key.fd, key.fileobj is self._stdout):
                read = True
            else:
                self._selector.unregister(key.fileobj)
        return read

    def close(self) -> None:
        self._selector.close()
        for pipe in (self._stdin, self._stdout, self._stderr):
            with suppress(OSError):
                pipe.close()

    def _feed(self) -> None:
        """Write more input. The program need not read it."""
        try:
            self._given = self._given[os.write(self._stdin.fileno(), self._given[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._given = self._given[:0]
        if not self._given:
            self._selector.unregister(self._stdin)
            with suppress(OSError):
                self._stdin.close()

    def _read(self, descriptor: int, is_stdout: bool) -> bool:
        """Read more output. Return `False` at its end."""
        try:
            data = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        if is_stdout:
            self.stdout += data
        else:
            self.stderr = (self.stderr + data)[-STDERR_BYTES:]
        return bool(data)


def _kill_group(process: "subprocess.Popen[bytes]") -> None:
    """Kill the program and its process group, including orphaned children."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def environment_for(environ: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of `environ` that are passed on, extended by `more`."""
    return {name: environ[name] for name in PASSED_ON if name in environ} | dict(more)
