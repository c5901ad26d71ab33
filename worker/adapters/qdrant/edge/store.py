"""The embedded store: Qdrant Edge in this process, on disk, for one process at a time.

The engine holds the GIL during every call, so calls are short (writes go in batches) and come from one thread, in
order. It never optimizes while serving: unindexed search is fast enough up to 100,000 memories, and optimizing blocks
the whole process for seconds.
"""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import structlog

from worker.adapters.qdrant.payload import batched, by_point, point_id, point_ids, tenant_name
from worker.domain.errors import StoreError
from worker.domain.kinds import SortKey
from worker.domain.memory import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Memory,
    MemoryFilter,
    Replacement,
    StoredMemory,
    StoredState,
)
from worker.domain.pages import Listing, Page
from worker.domain.store_health import StoreHealth
from worker.ports.store_record import StoreRecord

from .shard import Shard

BATCH = 64
"""Points per update, during which no other Python code runs: about 15 ms."""

FLUSH_EVERY = 2.0

T = TypeVar("T")
logger = structlog.get_logger()


class EdgeStore:
    """A `StoreEngine` in a folder. Use it from one event loop and close it."""

    def __init__(self, shard: Shard, executor: ThreadPoolExecutor, flush_every: float) -> None:
        self._shard = shard
        self._executor = executor
        self._flush_every = flush_every
        self._dirty = asyncio.Event()
        self._closed = False
        self._flush_fault: str | None = None
        self._flusher = asyncio.create_task(self._keep_flushed(), name="edge-store-flush")

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        profile: EmbedderProfile | None,
        bm25_hash: str,
        flush_every: float = FLUSH_EVERY,
    ) -> Self:
        """Open or create the store in the folder `path`; `flush_every` is in seconds.

        Without `profile`, only keyword search works. A store with other recipes opens and reports the fault in its
        health. Raise `StoreLocked`, `StoreDamaged`, `StoreFull` or `StoreError`.
        """
        executor = ThreadPoolExecutor(1, thread_name_prefix="edge-store")
        opening = executor.submit(Shard.open, path, profile, bm25_hash)
        with ExitStack() as failed:
            failed.callback(executor.shutdown, wait=False)
            failed.callback(opening.add_done_callback, _close_opened)  # after a cancellation, it may still open
            shard = await asyncio.shield(asyncio.wrap_future(opening))
            failed.pop_all()
        return cls(shard, executor, flush_every)

    def tenant(self, name: str) -> "EdgeTenant":
        return EdgeTenant(self, self._shard, tenant_name(name))

    async def health(self) -> StoreHealth:
        points = await self.run(self._shard.count_all)
        bare = await self.run(self._shard.without_dense)
        notes = [*self._shard.notes, *([] if self._flush_fault is None else [self._flush_fault])]
        return self._shard.compatibility.health("edge", points, bare, *notes)

    async def record(self) -> StoreRecord:
        return self._shard.record

    async def listing(self, *, limit: int, cursor: str | None = None, vectors: bool = False) -> Listing:
        return await self.run(lambda: self._shard.listing(limit, cursor, vectors))

    async def flush(self) -> None:
        self._dirty.clear()
        try:
            await self.run(self._shard.flush)
        except StoreError as error:
            self._flush_fault = str(error)
            raise
        self._flush_fault = None

    async def aclose(self) -> None:
        """Flush, close and unlock the folder; further calls raise `StoreError`."""
        if self._closed:
            return
        self._closed = True
        self._flusher.cancel()
        with suppress(asyncio.CancelledError):
            await self._flusher
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, self._shard.close)
        finally:
            self._executor.shutdown(wait=False)

    async def run(self, call: Callable[[], T]) -> T:
        """Run a blocking call on the store's thread, after earlier calls."""
        if self._closed:
            raise StoreError("the memory store is closed")
        return await asyncio.get_running_loop().run_in_executor(self._executor, call)

    async def write(self, call: Callable[[], T]) -> T:
        """Run a call that changes the store, and schedule a flush. Raise `StoreFull` if the disk is full."""
        self._dirty.set()
        await self.run(self._shard.check_room)
        return await self.run(call)

    async def _keep_flushed(self) -> None:
        while True:
            await self._dirty.wait()
            await asyncio.sleep(self._flush_every)
            try:
                await self.flush()
            except StoreError as error:
                logger.error("store_flush_failed", fault=str(error))
                self._dirty.set()


def _close_opened(opening: "Future[Shard]") -> None:
    if opening.exception() is None:
        opening.result().close()


class EdgeTenant:
    """A `MemoryStore` with one tenant's memories in an embedded store."""

    def __init__(self, store: EdgeStore, shard: Shard, tenant: str) -> None:
        self._store = store
        self._shard = shard
        self._tenant = tenant

    async def search(self, query: HybridQuery) -> list[Hit]:
        return (await self.search_many([query]))[0]

    async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        return await self._store.run(lambda: self._shard.search(self._tenant, queries))

    async def ordered(self, where: MemoryFilter, by: SortKey, *, limit: int) -> list[Hit]:
        return await self._store.run(lambda: self._shard.ordered(self._tenant, where, by, limit))

    async def get(self, ids: Sequence[str]) -> list[Memory]:
        return await self._store.run(lambda: self._shard.get(point_ids(self._tenant, ids)))

    async def states(self, ids: Sequence[str]) -> dict[str, StoredState]:
        points = {point_id(self._tenant, key): key for key in ids}
        return await self._store.run(lambda: self._shard.states(points))

    async def put(self, memories: Sequence[StoredMemory]) -> None:
        for batch in batched(by_point(self._tenant, memories).items(), BATCH):
            await self._store.write(partial(self._shard.put, self._tenant, dict(batch)))

    async def replace(self, changes: Sequence[Replacement]) -> list[str]:
        points = {point_id(self._tenant, change.memory.id): change for change in changes}
        refused: list[str] = []
        for batch in batched(points.items(), BATCH):
            refused += await self._store.write(partial(self._shard.replace, self._tenant, dict(batch)))
        return [points[key].memory.id for key in refused]

    async def delete(self, ids: Sequence[str]) -> int:
        return await self._store.write(lambda: self._shard.delete(point_ids(self._tenant, ids)))

    async def scroll(self, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        return await self._store.run(lambda: self._shard.scroll(self._tenant, where, limit, cursor))

    async def count(self, where: MemoryFilter | None = None) -> int:
        return await self._store.run(lambda: self._shard.count(self._tenant, where))
