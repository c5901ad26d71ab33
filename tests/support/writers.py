"""One store for two writers, of each kind."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.embedders import HashingEmbedder
from tests.support.real_servers import qdrant_server
from tests.support.store import ENCODER
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.adapters.qdrant.server.store import ServerStore
from worker.domain.memory import Vector
from worker.store.memories import MemoryService

EMBEDDER = HashingEmbedder()
Writers = tuple[MemoryService, ...]


class PausedEmbedder(HashingEmbedder):
    """Sets `asked` when it is asked for passages, and waits for `go_on`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self.asked.set()
        await self.go_on.wait()
        return await super().embed_passages(texts)


def service(engine: Any, embedder: HashingEmbedder = EMBEDDER) -> MemoryService:
    return MemoryService(engine, ENCODER, embedder)


@asynccontextmanager
async def writers_on(engine: str, folder: Path) -> AsyncIterator[Writers]:
    """Open one store for two writers: in one process, or with a connection each."""
    profile, bm25 = EMBEDDER.profile, ENCODER.config_hash
    if engine == "edge":
        store = await EdgeStore.open(folder / "store", profile=profile, bm25_hash=bm25)
        try:
            yield service(store), service(store)
        finally:
            await store.aclose()
        return
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(qdrant_server(engine))
        connect = partial(ServerStore.connect, server.url, collection=server.name)
        stores = [connect(profile=profile, bm25_hash=bm25) for _ in range(2)]
        for store_client in stores:
            stack.push_async_callback(store_client.aclose)
        yield tuple(map(service, stores))
