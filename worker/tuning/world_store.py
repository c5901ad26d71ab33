"""A temporary store for labelled worlds, to recall candidates for their tasks."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from worker.adapters.models.caching_embedder import CachingEmbedder
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.memory import Vector
from worker.ports.models import Embedder
from worker.recall.recall import Recall
from worker.recall.thresholds import without_thresholds
from worker.store.memories import MemoryService

from .labelled_worlds import LabelledWorld
from .relevance_cases import RelevanceCase, observe

QUERIES_KEPT = 100_000


class EveryTextOnce(CachingEmbedder):
    """Embed every text once, as the variants of a world repeat its texts."""

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner, capacity=QUERIES_KEPT)
        self._passages: dict[str, Vector] = {}

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        new = list(dict.fromkeys(text for text in texts if text not in self._passages))
        if new:
            self._passages.update(zip(new, await super().embed_passages(new), strict=True))
        return [self._passages[text] for text in texts]


@dataclass(frozen=True, slots=True)
class WorldStore:
    """An open store; each world is a separate tenant."""

    memory_service: MemoryService
    recall: Recall
    embedder: CachingEmbedder

    async def cases(self, world: LabelledWorld, advance: Callable[[], None] = lambda: None) -> list[RelevanceCase]:
        """Store a world and recall candidates for its tasks; tasks without a time run now."""
        await self.memory_service.put(world.name, world.memories)
        now = datetime.now(UTC)
        return [case async for case in observe(world, self.recall, self.embedder, now, advance)]


@asynccontextmanager
async def open_world_store(folder: Path) -> AsyncIterator[WorldStore]:
    """Open a store in `folder` with the embedder of the relevance model, which judges every candidate."""
    embedder, sparse = MiniLmEmbedder(), Bm25Encoder()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(embedder.aclose)
        engine = await EdgeStore.open(folder / "memories", profile=embedder.profile, bm25_hash=sparse.config_hash)
        stack.push_async_callback(engine.aclose)
        cached = EveryTextOnce(embedder)
        recall = Recall(engine, sparse, cached, None, without_thresholds(embedder.profile))
        yield WorldStore(MemoryService(engine, sparse, cached), recall, cached)
