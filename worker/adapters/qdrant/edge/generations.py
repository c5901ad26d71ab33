"""The generations of an embedded store: sibling folders, and a pointer file that names the live one."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict
from pathlib import Path

from worker.domain.errors import StoreError
from worker.ports.store import Generations, Recipe
from worker.settings.atomic_file import write_atomically

from .files import StoreLock
from .store import EdgeStore

FIRST = "memories"
POINTER = "memories.json"


class EdgeGenerations:
    """`StoreGenerations` in the folder `home`. Without a pointer file, `memories` is the only generation."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._live = FIRST

    @property
    def shared(self) -> bool:
        return False

    @property
    def live_name(self) -> str:
        return self._live

    @property
    def settle_s(self) -> float:
        return 0.0

    async def generations(self) -> Generations:
        return await asyncio.to_thread(read_generations, self._home)

    async def open(self, name: str, recipe: Recipe) -> EdgeStore:
        return await EdgeStore.open(self._home / name, profile=recipe.profile, bm25_hash=recipe.bm25_hash)

    async def open_live(self, recipe: Recipe) -> EdgeStore:
        """Open the live generation; retry if another process promotes another one before it is locked."""
        while True:
            name = (await self.generations()).live
            async with AsyncExitStack() as outdated:
                store = await self.open(name, recipe)
                outdated.push_async_callback(store.aclose)
                if (await self.generations()).live == name:
                    outdated.pop_all()
                    self._live = name
                    return store

    @asynccontextmanager
    async def exclusive(self) -> AsyncIterator[None]:
        """Do nothing: the process that has the live generation open is the only one that works on the store."""
        yield

    async def begin(self) -> str:
        known = await self.generations()
        return await asyncio.to_thread(self._begin, known)

    async def promote(self, name: str) -> None:
        known = await self.generations()
        await asyncio.to_thread(write_generations, self._home, known.promoted(name))

    async def discard(self, name: str) -> None:
        known = await self.generations()
        if name == known.live:
            raise StoreError(f"{name} is the live generation and cannot be deleted")
        await asyncio.to_thread(self._discard, known.without(name), name)

    def _begin(self, known: Generations) -> str:
        numbers = [1, *(_number(path.name) for path in self._home.glob(f"{FIRST}*"))]
        name = f"{FIRST}-{max(numbers) + 1}"
        write_generations(self._home, Generations(known.live, known.previous, name))
        return name

    def _discard(self, left: Generations, name: str) -> None:
        """Update the pointer file first, so that a partly deleted folder is never opened."""
        folder = self._home / name
        try:
            lock = StoreLock.acquire(folder) if folder.exists() else None
        except OSError as error:
            raise StoreError(f"{folder} cannot be deleted: {error}") from error
        try:
            write_generations(self._home, left)
            if folder.exists():
                shutil.rmtree(folder)
        except OSError as error:
            raise StoreError(f"{folder} cannot be deleted: {error}") from error
        finally:
            if lock is not None:
                lock.release()


def live_folder(home: Path) -> Path:
    """Return the live generation's folder. Raise `StoreError` if the pointer file cannot be read."""
    return home / read_generations(home).live


def read_generations(home: Path) -> Generations:
    """Read the pointer file. Raise `StoreError` if it exists and cannot be read."""
    path = home / POINTER
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Generations(str(values["live"]), tuple(map(str, values["previous"])), values["draft"])
    except FileNotFoundError:
        return Generations(FIRST)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{path} cannot be read ({type(error).__name__}): it names the folder with the memories; "
            'restore it, or write {"live": "<folder>", "previous": [], "draft": null}'
        ) from error


def write_generations(home: Path, generations: Generations) -> None:
    """Replace the pointer file atomically and durably. Raise `StoreError`."""
    path = home / POINTER
    try:
        write_atomically(path, json.dumps({"format": 1, **asdict(generations)}, indent=1), durable=True)
        _sync_folder(home)
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error}") from error


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _number(name: str) -> int:
    """Return the number in a generation's name, 0 if it has none."""
    number = name.removeprefix(f"{FIRST}-")
    return int(number) if number.isdigit() else 0
