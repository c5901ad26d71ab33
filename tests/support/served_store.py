"""A real store and its maintenance in the test's process, with embedders that hash words."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.embedders import HashingEmbedder
from tests.support.service import NOW
from worker.adapters.local.receipts import FileReceipts
from worker.adapters.local.usage import FileUsage
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.generations import EdgeGenerations
from worker.bootstrap.live_core import LiveCore, Serving
from worker.domain.deadline import Deadline
from worker.domain.errors import StoreError
from worker.domain.memory import HybridQuery, MemoryFilter
from worker.domain.operation import AnyOperation, Handlers, JsonObject, Operation, by_name
from worker.operations.listing import ListingOperations
from worker.operations.local_client import LocalOperationClient
from worker.operations.memories import MemoryOperations
from worker.operations.registry import EXPORT, PUT
from worker.operations.requests import MAX_BATCH
from worker.ports.models import Embedder
from worker.ports.state import UsageStore
from worker.ports.store import Recipe, StoreGenerations, WholeStore
from worker.settings.injection import InjectionConfig
from worker.store.copying import ChangeLog, Progress
from worker.store.maintenance import MaintenanceContext, StoreMaintenance
from worker.store.memories import MemoryService

SEARCH = Operation("search", JsonObject, JsonObject)
SPARSE = Bm25Encoder("english")


def recipe(embedder: Embedder | None, sparse: Bm25Encoder = SPARSE) -> Recipe:
    return Recipe(embedder.profile if embedder else None, sparse.config_hash)


@dataclass
class ServedStore:
    """A store that serves operations, and its maintenance."""

    host: LiveCore
    generations: StoreGenerations
    maintenance: StoreMaintenance
    progress: Progress

    async def call(self, operation: AnyOperation, payload: Mapping[str, Any]) -> dict[str, Any]:
        return await LocalOperationClient(self.host.handlers()).call(operation, dict(payload), budget=30)

    async def put(self, *memories: dict[str, Any], tenant: str = "t1") -> dict[str, Any]:
        """Store any number of memories and return the answer to the last batch."""
        answer = dict[str, Any]()
        for start in range(0, len(memories), MAX_BATCH):
            answer = await self.call(PUT, {"tenant": tenant, "memories": memories[start : start + MAX_BATCH]})
        return answer

    async def search(self, text: str, tenant: str = "t1") -> list[dict[str, Any]]:
        """Return hits with their cosine, best first, using the serving embedder."""
        return (await self.call(SEARCH, {"tenant": tenant, "text": text}))["hits"]  # type: ignore[no-any-return]

    async def contents(self, tenant: str = "t1") -> dict[str, str]:
        found, cursor = dict[str, str](), None
        while True:
            page = await self.call(EXPORT, {"tenant": tenant, "limit": 200, "cursor": cursor})
            found |= {memory["id"]: memory["content"] for memory in page["memories"]}
            cursor = page["cursor"]
            if cursor is None:
                return found


def _handlers(
    store: WholeStore, embedder: Embedder | None, sparse: Bm25Encoder, journal: ChangeLog, usage: UsageStore
) -> Handlers:
    async def search(request: JsonObject, deadline: Deadline) -> JsonObject:
        text = request.root["text"]
        dense = await embedder.embed_query(text) if embedder else None
        query = HybridQuery(dense, sparse.query(text), MemoryFilter(), 10)
        hits = await store.tenant(request.root["tenant"]).search(query)
        return JsonObject(
            {"hits": [{"id": hit.memory.id, "cosine": hit.cosine, "keyword": hit.keyword} for hit in hits]}
        )

    memories = MemoryService(store, sparse, embedder, changed=journal)
    operations = MemoryOperations(memories, usage, lambda: NOW)
    return by_name(
        (
            SEARCH.bind(search),
            *operations.handlers(),
            *ListingOperations(memories, lambda _: InjectionConfig(), lambda: NOW).handlers(),
        )
    )


@asynccontextmanager
async def open_served_store(
    folder: Path,
    configured: Embedder | None,
    *,
    named: Mapping[str, Embedder] | None = None,
    generations: StoreGenerations | None = None,
    elsewhere: Callable[[str, Recipe], Awaitable[WholeStore]] | None = None,
    sparse: Bm25Encoder = SPARSE,
) -> AsyncIterator[ServedStore]:
    """Serve the live generation in `folder`; `named` are the embedders that a reindex may use."""
    used: StoreGenerations = generations or EdgeGenerations(folder)
    journal, usage = ChangeLog(), FileUsage(folder / "usage")

    async def assemble(name: str, store: WholeStore, embedder: Embedder | None) -> Serving:
        usable = embedder if (await store.health()).dense_usable else None
        handlers = _handlers(store, usable, sparse, journal, usage)
        return Serving(name, store, embedder, usable is not None, handlers, decides=str)

    async def embedder_named(name: str | None) -> Embedder | None:
        return configured if name is None else (named or {})[name]

    async def nowhere(to: str, recipe: Recipe) -> WholeStore:
        raise StoreError(f"nothing is at {to}")

    async with AsyncExitStack() as stack:
        store = await used.open_live(recipe(configured, sparse))
        host = LiveCore(await assemble(used.live_name, store, configured), assemble, sparse)
        stack.push_async_callback(host.aclose)
        context = MaintenanceContext(
            generation_store=used,
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
        yield ServedStore(host, used, StoreMaintenance(context), Progress())


def small() -> HashingEmbedder:
    return HashingEmbedder(64, "small")


def large() -> HashingEmbedder:
    return HashingEmbedder(128, "large")
