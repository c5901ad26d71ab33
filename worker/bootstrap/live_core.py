"""The serving core, and its replacement by another generation of the store while requests come in."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

import structlog

from worker.domain.errors import MeeseeksError
from worker.domain.operation import AnyHandler, Handlers
from worker.operations.lasting import LastingWork
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import WholeStore
from worker.store.copying import PointBuilder
from worker.store.switching import LONGEST_USE, OperationSwitch, WriteBarrier

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Serving:
    """One generation of the store, its embedder, and the handlers that use them.

    `decides` says what chooses memories under the settings for all agents.
    """

    name: str
    store: WholeStore
    embedder: Embedder | None
    dense_usable: bool
    handlers: Handlers
    decides: Callable[[], str]


Assemble = Callable[[str, WholeStore, Embedder | None], Awaitable[Serving]]


class LiveCore:
    """Owns the serving store. Close it after the operations."""

    def __init__(self, first: Serving, assemble: Assemble, sparse: SparseEncoder) -> None:
        self._serving = first
        self._assemble = assemble
        self._sparse = sparse
        self._retiring: set[asyncio.Task[None]] = set()
        self._fitting: LastingWork | None = None
        self.write_barrier = WriteBarrier()
        self._switch = OperationSwitch(self.write_barrier, first.handlers)

    @property
    def serving(self) -> Serving:
        return self._serving

    def store(self) -> WholeStore:
        return self._serving.store

    def maker(self) -> PointBuilder:
        return PointBuilder(self._serving.embedder, self._sparse)

    def handlers(self) -> dict[str, AnyHandler]:
        """Return handlers that stay valid when another generation of the store replaces this one."""
        return self._switch.handlers()

    async def adopt(self, name: str, store: WholeStore, embedder: Embedder | None) -> None:
        """Serve from `store` from now on, and close the former one once no call uses it."""
        serving = await self._assemble(name, store, embedder)
        former, self._serving = self._serving, serving
        idle = self._switch.use(serving.handlers)
        task = asyncio.create_task(_retire(former, idle), name="retire-store")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def retired(self) -> None:
        """Wait until replaced generations are closed and may be opened again or deleted."""
        if self._retiring:
            await asyncio.wait(tuple(self._retiring))

    def keep_fitting(self, every: float) -> None:
        """Check until closing whether the vectors of a shared store fit; another process may reindex it."""
        self._fitting = LastingWork("keep-fitting", partial(self._keep_fitting, every))

    async def _keep_fitting(self, every: float) -> None:
        while True:
            await asyncio.sleep(every)
            try:
                await self._fit(self._serving)
            except (MeeseeksError, OSError) as error:
                log.warning("store_recipe_unchecked", error=str(error))

    async def _fit(self, serving: Serving) -> None:
        """Assemble the core again if the vectors of its store began or ceased to fit."""
        made_by = await serving.store.record()
        fits = serving.embedder is not None and made_by.embedder == self.maker().record.embedder
        if fits == serving.dense_usable:
            return
        fitting = await self._assemble(serving.name, serving.store, serving.embedder)
        if serving is self._serving:  # otherwise, another generation was adopted meanwhile, and this one closes
            self._serving = fitting
            self._switch.use(fitting.handlers)
            log.warning("store_recipe_changed", dense_usable=fits)

    async def aclose(self) -> None:
        if self._fitting is not None:
            await self._fitting.aclose()
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
