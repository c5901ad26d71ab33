"""Watches what may change while the service runs: the settings file, the folder of prompts, saved settings.

Files are looked at by polling, which works on every file system, through links and in containers. A change is taken
up once a file has stayed the same between two looks, so that a file that is being written is not read half.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

LOOK_S = 0.25
"""Seconds between two looks at files: a change is in force after twice that."""

ASK_S = 0.5
"""Seconds between two questions for saved settings."""

CANCEL_S = 0.1
"""Seconds after which a step that still runs is cancelled again."""

log = structlog.get_logger()

Step = Callable[[], Awaitable[None]]
Signature = tuple[tuple[str, int, int, int, int], ...]


class FileWatch:
    """Calls `reload` when a file, or a `*.md` in a folder, has changed; the first time in any case."""

    def __init__(self, path: Path, reload: Step) -> None:
        self._path = path
        self._reload = reload
        self._used: Signature | None = None
        self._seen: Signature | None = None

    async def step(self) -> None:
        before, self._seen = self._seen, await asyncio.to_thread(_signature, self._path)
        if self._seen == before and self._seen != self._used:
            self._used = self._seen
            await self._reload()


def _signature(path: Path) -> Signature:
    """Name, inode, size and times of what is there; links are followed."""
    try:
        files = sorted(path.glob("*.md")) if path.is_dir() else [path]
        stats = [(file.name, file.stat()) for file in files]
    except OSError:
        return ()
    return tuple((name, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns) for name, stat in stats)


class ConfigWatcher:
    """Takes each of `steps` again and again, at its own interval in seconds, until it is closed.

    Whatever goes wrong in a step is logged once and hurts nothing: what was in force stays in force.
    """

    def __init__(self, steps: dict[str, tuple[Step, float]]) -> None:
        self._steps = steps
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for name, (step, seconds) in self._steps.items():
            self._tasks.append(asyncio.create_task(_watch(name, step, seconds), name=f"watch-{name}"))

    async def aclose(self) -> None:
        tasks, self._tasks = set(self._tasks), []
        while tasks:
            for task in tasks:
                task.cancel()
            # asyncio.wait_for, which Redis clients send commands with, loses a cancellation that comes as it ends
            _, tasks = await asyncio.wait(tasks, timeout=CANCEL_S)


async def _watch(name: str, step: Step, seconds: float) -> None:
    trouble: str | None = None
    while True:
        try:
            await step()
            found = None
        except Exception as error:  # noqa: BLE001 - a watcher that ends would leave settings frozen without a word
            found = type(error).__name__
        if found != trouble:
            trouble = found
            log.warning("watcher_failed" if found else "watcher_recovered", watching=name, error=found)
        await asyncio.sleep(seconds)
