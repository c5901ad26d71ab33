"""The `meeseeks` command in processes of its own, forked from one that has loaded what commands import.

Loading takes more than a second of processor time for a service, and three more with HTTP and a model; the suite starts
many. What follows the imports is that of `python -m worker`. Tests of the start itself start an interpreter.
"""

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.support.paths import ROOT

LOADED = "tests.support.forked_modules"
_ONE_AT_A_TIME = threading.Lock()


class Forked:
    """A running command with the methods of `subprocess.Popen`; it has no input, and writes to files.

    It is `main` of the module `program`, with the arguments `line`.
    """

    def __init__(
        self,
        line: Sequence[str],
        folder: Path,
        variables: Mapping[str, str],
        *,
        out: Path,
        log: Path,
        program: str = "worker.__main__",
    ) -> None:
        self._line = list(line)
        self._process = _context().Process(
            target=_run, args=(program, self._line, folder, dict(variables), out, log), daemon=True
        )
        with _where_tests_are_found():
            self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raise `subprocess.TimeoutExpired`."""
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(self._line, timeout or 0.0)
        return status

    def terminate(self) -> None:
        self._process.terminate()

    def kill(self) -> None:
        self._process.kill()


def run_forked(
    line: Sequence[str], folder: Path, variables: Mapping[str, str], *, seconds: float
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, as `subprocess.run` does."""
    with tempfile.TemporaryDirectory() as place:
        out, log = Path(place) / "out", Path(place) / "log"
        process = Forked(line, folder, variables, out=out, log=log)
        try:
            status = process.wait(seconds)
        finally:
            process.kill()
        return subprocess.CompletedProcess(
            list(line), status, out.read_text(encoding="utf-8"), log.read_text(encoding="utf-8")
        )


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([LOADED])
    return context


@contextmanager
def _where_tests_are_found() -> Iterator[None]:
    """The first process starts the one that all are forked from, which has only variables to find modules by.

    Tests run commands side by side in threads, which share these variables.
    """
    with _ONE_AT_A_TIME, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield


def _run(program: str, line: list[str], folder: Path, variables: Mapping[str, str], out: Path, log: Path) -> None:
    """Become `python -m` with a module and the arguments `line`."""
    module = import_module(program)
    _open_streams(out, log)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    sys.argv = [str(module.__file__), *line]
    gc.enable()  # as in a new interpreter
    module.main()


def _open_streams(out: Path, log: Path) -> None:
    adding = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    for stream, (path, flags) in enumerate(((Path(os.devnull), os.O_RDONLY), (out, adding), (log, adding))):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, stream)
        os.close(opened)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)
