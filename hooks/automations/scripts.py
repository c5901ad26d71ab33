"""Runs a program with a JSON object on standard input and one expected on standard output. Blocking, and bounded."""

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
"""Most bytes of standard output; a program that writes more has gone wrong and is killed."""

STDERR_BYTES = 4096
"""So much of the end of standard error is kept."""

PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_DATA_HOME"),
    *("MEESEEKS_DATA_DIR", "MEESEEKS_REDIS_URL", "MEESEEKS_URL", "MEESEEKS_TOKEN"),
)
"""Variables that a program is given, where they are set: no other, so that no key of the orchestrator reaches it."""

_LOOK_S = 0.05
_CHUNK = 65_536


class Ending(StrEnum):
    EXITED = "exited"
    TIMED_OUT = "timed_out"
    STOPPED = "stopped"
    TOO_MUCH_OUTPUT = "too_much_output"
    NOT_STARTED = "not_started"


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """What a program did. `exit_status` is negative for the signal that ended it; `fault` says why it did not start."""

    ending: Ending
    exit_status: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    fault: str = ""


@dataclass(slots=True)
class ScriptJob:
    """A program to run: in a session of its own, so that it can be killed with all that it starts.

    `end` is a point in monotonic time, in seconds, by which `run` has returned, but for the system's own delays.
    """

    path: Path
    given: bytes
    folder: Path | None
    environment: Mapping[str, str]
    end: float
    stop: threading.Event

    def run(self) -> ScriptRun:
        try:
            process = subprocess.Popen(  # noqa: S603 - running what its user registered is what this is for
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
            process.wait(_LOOK_S)
        return ScriptRun(ending, process.returncode, bytes(pipes.stdout), bytes(pipes.stderr))

    def _watch(self, process: "subprocess.Popen[bytes]", pipes: "_Pipes") -> Ending:
        """Feed and read the program until it has ended; what it has left running by then does not count."""
        while True:
            ended = process.poll() is not None
            left = self.end - time.monotonic()
            moved = pipes.move(0.0 if ended else max(0.0, min(left, _LOOK_S)))
            if len(pipes.stdout) > MAX_OUTPUT_BYTES:
                return Ending.TOO_MUCH_OUTPUT
            if ended and not moved:
                return Ending.EXITED
            if self.stop.is_set():
                return Ending.STOPPED
            if left <= 0:
                return Ending.TIMED_OUT
            if not ended and pipes.silent:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, min(left, _LOOK_S)))


class _Pipes:
    """The three pipes of a program, none of which is ever waited for alone."""

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
        """Whether both of its outputs are closed."""
        open_pipes = {key.fileobj for key in self._selector.get_map().values()}
        return not open_pipes & {self._stdout, self._stderr}

    def move(self, seconds: float) -> bool:
        """Move what can be moved, waiting at most so long for it; whether any output came."""
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
        """Give it more of its input; one that does not want it need not read it."""
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
        """Whether there was more to read."""
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
    """End the program and everything in its session's first group, by then an orphan where the program has ended."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def environment_for(environ: Mapping[str, str], more: Mapping[str, str]) -> dict[str, str]:
    """What a program's environment is made of: what is passed on, and what is said for it."""
    return {name: environ[name] for name in PASSED_ON if name in environ} | dict(more)
