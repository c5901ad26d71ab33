"""A store of its own in a folder, for labelled worlds: what the product's recall brings for their tasks."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from worker.adapters.models.caching_embedder import CachingEmbedder
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.memory import EmbedderProfile
from worker.recall.recall import Recall
from worker.store.memories import MemoryService

from .labelled_worlds import LabelledWorld
from .relevance_cases import RelevanceCase, observe


@dataclass(frozen=True, slots=True)
class WorldStore:
    """An open store; each world is a tenant of its own."""

    memory_service: MemoryService
    recall: Recall
    embedder: CachingEmbedder

    async def cases(self, world: LabelledWorld, advance: Callable[[], None] = lambda: None) -> list[RelevanceCase]:
        """The tasks of a world, which is stored first; those without a time are asked now."""
        await self.memory_service.put(world.name, world.memories)
        now = datetime.now(UTC)
        return [case async for case in observe(world, self.recall, self.embedder, now, advance)]


@asynccontextmanager
async def open_world_store(folder: Path, profile: EmbedderProfile | None = None) -> AsyncIterator[WorldStore]:
    """The store in `folder`, with the embedder that the model is made for; `profile` has other thresholds for it."""
    embedder, sparse = MiniLmEmbedder(), Bm25Encoder()
    engine = await EdgeStore.open(folder / "memories", profile=embedder.profile, bm25_hash=sparse.config_hash)
    try:
        cached = CachingEmbedder(embedder)
        yield WorldStore(MemoryService(engine, sparse, embedder), Recall(engine, sparse, cached, None, profile), cached)
    finally:
        await engine.aclose()
        await embedder.aclose()
