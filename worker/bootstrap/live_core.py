"""The core in service, and how another generation of the store takes its place while requests come in."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from worker.domain.errors import StoreError
from worker.domain.operation import Operation
from worker.operations.memories import WRITES
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import WholeStore
from worker.store.copying import PointBuilder
from worker.store.switching import LONGEST_USE, OperationSwitch, WriteBarrier

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Serving:
    """One generation in service: its store, the embedder that fits it, and what answers requests with them."""

    name: str
    store: WholeStore
    embedder: Embedder | None
    dense_usable: bool
    operations: dict[str, Operation]


Assemble = Callable[[str, WholeStore, Embedder | None], Awaitable[Serving]]


class LiveCore:
    """Owns the store in service. Close it after the operations."""

    def __init__(self, first: Serving, assemble: Assemble, sparse: SparseEncoder) -> None:
        self._serving = first
        self._assemble = assemble
        self._sparse = sparse
        self._retiring: set[asyncio.Task[None]] = set()
        self.write_barrier = WriteBarrier()
        self._switch = OperationSwitch(self.write_barrier, WRITES, first.operations)

    @property
    def serving(self) -> Serving:
        return self._serving

    def store(self) -> WholeStore:
        return self._serving.store

    def maker(self) -> PointBuilder:
        return PointBuilder(self._serving.embedder, self._sparse)

    def table(self) -> dict[str, Operation]:
        """Operations that stay the same whichever generation serves."""
        return self._switch.table()

    async def adopt(self, name: str, store: WholeStore, embedder: Embedder | None) -> None:
        """Serve from `store` from now on; the former one is closed once nobody uses it any more."""
        serving = await self._assemble(name, store, embedder)
        former, self._serving = self._serving, serving
        idle = self._switch.use(serving.operations)
        task = asyncio.create_task(_retire(former, idle), name="retire-store")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def retired(self) -> None:
        """Wait until the generations that were replaced are closed, and free to be opened again or deleted."""
        if self._retiring:
            await asyncio.wait(tuple(self._retiring))

    async def keep_fitting(self, every: float) -> None:
        """Go on for ever looking whether the vectors of a shared store fit, which a reindex elsewhere may change."""
        while True:
            await asyncio.sleep(every)
            serving = self._serving
            try:
                made_by = await serving.store.record()
            except StoreError:
                continue
            usable = serving.embedder is not None and made_by.embedder == self.maker().record.embedder
            if usable != serving.dense_usable and serving is self._serving:
                self._serving = await self._assemble(serving.name, serving.store, serving.embedder)
                self._switch.use(self._serving.operations)
                log.warning("store_recipe_changed", dense_usable=usable)

    async def aclose(self) -> None:
        for task in tuple(self._retiring):
            task.cancel()
        await self.retired()
        await self._serving.store.aclose()


async def _retire(former: Serving, idle: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(LONGEST_USE):
            await idle.wait()
    except TimeoutError:
        log.warning("store_closed_in_use", generation=former.name)
    finally:
        await former.store.aclose()
