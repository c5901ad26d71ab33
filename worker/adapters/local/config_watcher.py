"""Watch the settings file, the prompts folder and saved settings for changes.

Files are polled, which works on every file system, through links and in containers. A changed file is reloaded once it
is the same in two polls in a row, so that a file being written is not read early.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from worker.domain.tasks import ended

LOOK_S = 0.25
"""Seconds between polls of files; a change takes effect after two polls."""

ASK_S = 0.5
"""Seconds between polls of saved settings."""

log = structlog.get_logger()

Step = Callable[[], Awaitable[None]]
Signature = tuple[tuple[str, int, int, int, int], ...]


class FileWatch:
    """Call `reload` at first, and whenever the file, or a `*.md` in the folder, has changed."""

    def __init__(self, path: Path, reload: Step) -> None:
        self._path = path
        self._reload = reload
        self._loaded: Signature | None = None
        self._seen: Signature | None = None

    async def step(self) -> None:
        before, self._seen = self._seen, await asyncio.to_thread(_signature, self._path)
        if self._seen == before and self._seen != self._loaded:
            self._loaded = self._seen
            await self._reload()


def _signature(path: Path) -> Signature:
    """Return name, inode, size and times of each file, following links."""
    try:
        files = sorted(path.glob("*.md")) if path.is_dir() else [path]
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in stats)


class ConfigWatcher:
    """Run each of `steps` repeatedly, at its interval in seconds, until closed.

    A failing step is logged once; the previous settings stay in effect.
    """

    def __init__(self, steps: dict[str, tuple[Step, float]]) -> None:
        self._steps = steps
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for name, (step, seconds) in self._steps.items():
            self._tasks.append(asyncio.create_task(_watch(name, step, seconds), name=f"watch-{name}"))

    async def aclose(self) -> None:
        tasks, self._tasks = self._tasks, []
        await ended(*tasks)


async def _watch(name: str, step: Step, seconds: float) -> None:
    reported: str | None = None
    while True:
        try:
            await step()
            found = None
        except Exception as error:  # noqa: BLE001 - a watcher must not end silently
            found = type(error).__name__
        if found != reported:
            reported = found
            log.warning("watcher_failed" if found else "watcher_recovered", watching=name, error=found)
        await asyncio.sleep(seconds)
