"""Reading of a file in a process of its own, which can be stopped at any moment and has a limit of memory and time."""

import asyncio
import json
import os
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from worker.domain.memory import Memory

from .entries import REST_SKIPPED, LeftOut, Noted, Rejected, Remark, memory_from
from .formats import Format

STALLED_S = 60.0
"""Seconds without anything read, after which the rest of a file is given up."""

MAX_LINE_BYTES = 1 << 24

_STOPPED = f"reading took too long or too much memory; {REST_SKIPPED}"
_REMARKS: dict[str, type[Remark]] = {kind.__name__: kind for kind in (Rejected, LeftOut, Noted)}
_PASSED = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR")


@asynccontextmanager
async def read_apart(
    path: Path, wanted: Format | None, *, mask: bool, stalled_s: float = STALLED_S
) -> AsyncIterator[AsyncIterator[Memory | Remark]]:
    """Yield the memories and remarks of a file, as `Source.entries` does; leaving the block stops the reading."""
    arguments = (str(path), wanted.value if wanted else "", "mask" if mask else "")
    environment = {name: os.environ[name] for name in _PASSED if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "worker.transfer", *arguments),
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=DEVNULL,
        env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        limit=MAX_LINE_BYTES,
    )
    try:
        yield _entries(process, stalled_s)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _entries(process: Process, stalled_s: float) -> AsyncIterator[Memory | Remark]:
    lines = process.stdout
    if lines is None:  # it is a pipe
        return
    while True:
        try:
            async with asyncio.timeout(stalled_s):
                line = await lines.readline()
            value = json.loads(line)
        except (TimeoutError, ValueError):
            yield Rejected(0, _STOPPED)
            return
        if "end" in value:
            return
        if "memory" in value:
            yield memory_from(value["memory"], None)
        else:
            yield _REMARKS[value["remark"]](value["line"], value["reason"])
