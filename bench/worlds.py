"""Load labelled worlds into an embedded store."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.progress import Progress

from worker.adapters.models.minilm import MiniLmEmbedder
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.errors import MeeseeksError
from worker.store.memories import MemoryService
from worker.tuning.labelled_worlds import LabelledWorld, read_worlds

from .processes import BenchError, scratch
from .progress import bar

QUICK_WORLDS = 1


@dataclass(frozen=True, slots=True)
class Opened:
    """Worlds in a store, one tenant each, with its embedders."""

    worlds: tuple[LabelledWorld, ...]
    engine: EdgeStore
    embedder: MiniLmEmbedder
    sparse: Bm25Encoder


@asynccontextmanager
async def opened(folder: Path, progress: Progress, *, quick: bool) -> AsyncIterator[Opened]:
    """Store the worlds of `folder`; only the first one if `quick`."""
    try:
        worlds = read_worlds(folder)
    except MeeseeksError as error:
        raise BenchError(str(error)) from error
    worlds = worlds[:QUICK_WORLDS] if quick else worlds
    embedder, sparse = MiniLmEmbedder(), Bm25Encoder()
    with scratch() as temporary:
        engine = await EdgeStore.open(temporary / "memories", profile=embedder.profile, bm25_hash=sparse.config_hash)
        try:
            await _store(worlds, MemoryService(engine, sparse, embedder), progress)
            yield Opened(worlds, engine, embedder, sparse)
        finally:
            await engine.aclose()
            await embedder.aclose()


async def _store(worlds: Sequence[LabelledWorld], memory_service: MemoryService, progress: Progress) -> None:
    with bar(progress, "storing worlds", len(worlds)) as advance:
        for world in worlds:
            await memory_service.put(world.name, world.memories)
            advance()
