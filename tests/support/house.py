"""A store with everything that keeps it, in the test's process: real engines, embedders that hash words."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.embedders import HashingEmbedder
from tests.support.service import NOW
from worker.adapters.local.receipts import FileReceipts
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.generations import EdgeGenerations
from worker.bootstrap.live_core import LiveCore, Serving
from worker.domain.deadline import Deadline
from worker.domain.errors import StoreError
from worker.domain.memory import HybridQuery, MemoryFilter
from worker.domain.operation import OperationAnswer
from worker.operations.memories import EXPORT, PUT, MemoryOperations
from worker.operations.payloads import MAX_BATCH
from worker.ports.models import Embedder
from worker.ports.store import Recipe, StoreGenerations, WholeStore
from worker.store.copying import ChangeLog, Progress
from worker.store.maintenance import MaintenanceContext, StoreMaintenance
from worker.store.memories import MemoryService

SEARCH = "search"
SPARSE = Bm25Encoder("english")


def recipe(embedder: Embedder | None, sparse: Bm25Encoder = SPARSE) -> Recipe:
    return Recipe(embedder.profile if embedder else None, sparse.config_hash)


@dataclass
class Kept:
    """A store in service; `keeper` does what the command does."""

    host: LiveCore
    shelf: StoreGenerations
    memory_service: StoreMaintenance
    progress: Progress

    async def call(self, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        answer: OperationAnswer = await self.host.table()[operation](dict(payload), Deadline.after(30))
        return answer.body

    async def put(self, *memories: dict[str, Any], tenant: str = "t1") -> dict[str, Any]:
        """Store as many memories as there are; the answer is about the last of them."""
        answer = dict[str, Any]()
        for start in range(0, len(memories), MAX_BATCH):
            answer = await self.call(PUT, {"tenant": tenant, "memories": memories[start : start + MAX_BATCH]})
        return answer

    async def search(self, text: str, tenant: str = "t1") -> list[dict[str, Any]]:
        """Hits with their cosine, best first; embedded by the embedder in service."""
        return (await self.call(SEARCH, {"tenant": tenant, "text": text}))["hits"]  # type: ignore[no-any-return]

    async def contents(self, tenant: str = "t1") -> dict[str, str]:
        found, cursor = dict[str, str](), None
        while True:
            page = await self.call(EXPORT, {"tenant": tenant, "limit": 200, "cursor": cursor})
            found |= {memory["id"]: memory["content"] for memory in page["memories"]}
            cursor = page["cursor"]
            if cursor is None:
                return found


def _operations(
    store: WholeStore, embedder: Embedder | None, sparse: Bm25Encoder, journal: ChangeLog
) -> dict[str, Any]:
    async def search(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        text = payload["text"]
        dense = await embedder.embed_query(text) if embedder else None
        query = HybridQuery(dense, sparse.query(text), MemoryFilter(), 10)
        hits = await store.tenant(payload["tenant"]).search(query)
        return OperationAnswer(
            {"hits": [{"id": hit.memory.id, "cosine": hit.cosine, "keyword": hit.keyword} for hit in hits]}
        )

    memories = MemoryOperations(MemoryService(store, sparse, embedder, changed=journal), lambda: NOW)
    return {SEARCH: search, **memories.table()}


@asynccontextmanager
async def open_house(
    folder: Path,
    configured: Embedder | None,
    *,
    named: Mapping[str, Embedder] | None = None,
    shelf: StoreGenerations | None = None,
    elsewhere: Callable[[str, Recipe], Awaitable[WholeStore]] | None = None,
    sparse: Bm25Encoder = SPARSE,
) -> AsyncIterator[Kept]:
    """The live generation in `folder` in service; `named` are the embedders that a reindex may be given."""
    used: StoreGenerations = shelf or EdgeGenerations(folder)
    journal = ChangeLog()

    async def assemble(name: str, store: WholeStore, embedder: Embedder | None) -> Serving:
        usable = embedder if (await store.health()).dense_usable else None
        return Serving(name, store, embedder, usable is not None, _operations(store, usable, sparse, journal))

    async def embedder_named(name: str | None) -> Embedder | None:
        return configured if name is None else (named or {})[name]

    async def nowhere(to: str, wanted: Recipe) -> WholeStore:
        raise StoreError(f"nothing is at {to}")

    async with AsyncExitStack() as stack:
        store = await used.open_live(recipe(configured, sparse))
        host = LiveCore(await assemble(used.live_name, store, configured), assemble, sparse)
        stack.push_async_callback(host.aclose)
        house = MaintenanceContext(
            shelf=used,
            store=host.store,
            maker=host.maker,
            sparse=sparse,
            embedder=embedder_named,
            adopt=host.adopt,
            retired=host.retired,
            elsewhere=elsewhere or nowhere,
            receipts=FileReceipts(folder / "receipts"),
            journal=journal,
            write_barrier=host.write_barrier,
            clock=lambda: NOW,
        )
        yield Kept(host, used, StoreMaintenance(house), Progress())


def small() -> HashingEmbedder:
    return HashingEmbedder(64, "small")


def large() -> HashingEmbedder:
    return HashingEmbedder(128, "large")
