"""Keeps a whole store: reindex it, back it up, restore it, move it to another engine, go back.

Reading goes on all the time. Whatever changes a store makes a new generation beside the live one while that one
serves; what is written meanwhile is noted, and copied at the end while writes wait for a moment. Then one small step
says which generation is live. The former one is kept until it is pruned.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from worker.domain.errors import NotFound, StoreError
from worker.domain.memory import Listed
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.state import ReceiptStore
from worker.ports.store import Recipe, StoreGenerations, WholeStore

from .backup import BackupReader, BackupWriter, DeletedSince
from .copying import PAGE, Address, ChangeLog, Copier, PointBuilder, Progress, by_tenant, check_counts, grouped
from .recall_check import RecallCheck
from .switching import WriteBarrier

CATCH_UPS = 5
"""Rounds of copying what has just been written before writes are held back for the last of it."""

SMALL = PAGE

log = structlog.get_logger()

Adopt = Callable[[str, WholeStore, Embedder | None], Awaitable[None]]
"""Serve from this generation from now on: its name, the open store, and the embedder that fits it."""

Elsewhere = Callable[[str, Recipe], Awaitable[WholeStore]]
"""Open the store at `edge` or at a URL."""


@dataclass(frozen=True, slots=True)
class MaintenanceContext:
    """What a store is kept with. `store` and `maker` are of the live generation at the time of the call.

    `retired` waits until those that it replaced are closed.
    """

    generation_store: StoreGenerations
    store: Callable[[], WholeStore]
    maker: Callable[[], PointBuilder]
    sparse: SparseEncoder
    embedder: Callable[[str | None], Awaitable[Embedder | None]]
    adopt: Adopt
    retired: Callable[[], Awaitable[None]]
    elsewhere: Elsewhere
    receipts: ReceiptStore
    journal: ChangeLog
    write_barrier: WriteBarrier
    clock: Callable[[], datetime]


class StoreMaintenance:
    """The use cases. Every one of them raises `StoreError` or `EmbedderError`, and then nothing has changed."""

    def __init__(self, context: MaintenanceContext) -> None:
        self._maintenance_context = context

    async def info(self) -> dict[str, Any]:
        """What the live generation is, and which others there are."""
        store = self._maintenance_context.store()
        health, record = await store.health(), await store.record()
        generations = await self._maintenance_context.generation_store.generations()
        return {"store": asdict(health), "made_by": record.dump(), "generations": asdict(generations)}

    async def reindex(
        self, progress: Progress, *, embedder: str | None = None, force: bool = False, min_overlap: float = 0.3
    ) -> dict[str, Any]:
        """Give every memory its vectors by the configured recipes, or by `embedder`; goes on where it was broken off.

        Dense vectors that fit are taken over unless `force`. Raises `StoreError` where the new generation lacks
        memories or, unless `force`, finds too little.
        """
        context = self._maintenance_context
        maker = PointBuilder(await context.embedder(embedder), context.sparse, anew=force)
        if not force and await self._is_made_by(maker):
            return {"reindexed": 0, "reason": "every memory has its vectors by these recipes; --force makes them anew"}
        async with self._candidate(await self._draft(maker)) as draft:
            return await self._replace(progress, maker, draft, None if force else min_overlap)

    async def rollback(self, progress: Progress, *, embedder: str | None = None) -> dict[str, Any]:
        """Go back to the former generation, with everything that was written since."""
        context = self._maintenance_context
        previous = (await context.generation_store.generations()).previous
        if not previous:
            raise NotFound("there is no former generation to go back to")
        maker = PointBuilder(await context.embedder(embedder), context.sparse)
        await context.retired()
        former = _Candidate(previous[0], await context.generation_store.open(previous[0], _recipe(maker)))
        async with self._candidate(former):
            made_by = await former.store.record()
            if made_by != maker.record:
                raise StoreError(
                    f"the former generation was made with {made_by.embedder or 'no embedder'} and keyword recipe "
                    f"{made_by.bm25}; name that embedder with --embedder or in the settings, and go back then"
                )
            return await self._replace(progress, maker, former, None)

    async def prune(self, progress: Progress) -> dict[str, Any]:
        """Delete every generation that is not in use."""
        await self._maintenance_context.retired()
        generations = await self._maintenance_context.generation_store.generations()
        others = [*generations.previous, *([generations.draft] if generations.draft else [])]
        progress.enter("deleting", len(others))
        for name in others:
            await self._maintenance_context.generation_store.discard(name)
            progress.done += 1
        return {"deleted": others}

    async def backup(self, progress: Progress, path: Path) -> dict[str, Any]:
        """Write everything to `path`, which must not be there: a folder, or a file that ends in `.tar.gz`."""
        context, store = self._maintenance_context, self._maintenance_context.store()
        writer = BackupWriter(path)
        await asyncio.to_thread(writer.begin)
        context.journal.begin()
        try:
            made_by = await store.record()
            vectors = made_by.embedder is not None
            await _list_to(writer, store, progress, vectors=vectors)
            async with context.write_barrier.closed():
                await _append_changes(writer, store, context.journal.take())
                memories = (await store.health()).points
            size = await asyncio.to_thread(writer.finish, made_by, memories, context.clock())
        finally:
            context.journal.end()
            await asyncio.to_thread(writer.abandon)
        return {"memories": memories, "bytes": size, "path": str(path)}

    async def restore(self, progress: Progress, path: Path, *, force: bool = False) -> dict[str, Any]:
        """Put back a backup in place of what the store holds; only an empty store is replaced without `force`.

        Vectors by the same embedder are taken over, others are made anew.
        """
        context = self._maintenance_context
        held = (await context.store().health()).points
        if held and not force:
            raise StoreError(f"the store holds {held} memories; --force replaces them, and keeps them for going back")
        progress.enter("checking")
        reader = await asyncio.to_thread(BackupReader.open, path)
        maker = context.maker()
        async with self._candidate(await self._fresh(maker)) as candidate:
            await _read_from(reader, candidate.store, maker, progress)
            found = (await candidate.store.health()).points
            if found != reader.manifest.memories:
                raise StoreError(f"{found} memories were restored, the backup says {reader.manifest.memories}")
            async with context.write_barrier.closed():
                await self._promote(candidate, maker)
        return {"restored": found, "replaced": held}

    async def migrate(self, progress: Progress, to: str, *, force: bool = False) -> dict[str, Any]:
        """Copy everything to the store at `to`, `edge` or the URL of a server; the settings still name the old one."""
        context, source, maker = (
            self._maintenance_context,
            self._maintenance_context.store(),
            self._maintenance_context.maker(),
        )
        target = await context.elsewhere(to, _recipe(maker))
        context.journal.begin()
        try:
            held, fault = (health := await target.health()).points, health.fault
            if held and not force:
                raise StoreError(f"{to} holds {held} memories; --force makes it hold what is here, and nothing else")
            if fault:
                raise StoreError(f"{to} cannot take these memories as it is: {fault}")
            copier = Copier(source, target, maker, progress)
            await copier.everything()
            async with context.write_barrier.closed():
                await copier.some(context.journal.take())
                found = await check_counts(source, target, copier.unreadable)
            await target.flush()
        finally:
            context.journal.end()
            await target.aclose()
        return {"migrated": found, "to": to}

    async def _is_made_by(self, maker: PointBuilder) -> bool:
        """Whether the live generation was made like this, and every memory in it has its vector."""
        store = self._maintenance_context.store()
        if await store.record() != maker.record:
            return False
        return not (await store.health()).bare

    async def _draft(self, maker: PointBuilder) -> "_Candidate":
        """The unfinished generation where it was begun with these recipes, else a new one."""
        name = (await self._maintenance_context.generation_store.generations()).draft
        if name is None:
            return await self._fresh(maker)
        draft = await self._maintenance_context.generation_store.open(name, _recipe(maker))
        if await draft.record() == maker.record:
            return _Candidate(name, draft)
        await draft.aclose()
        return await self._fresh(maker)

    async def _fresh(self, maker: PointBuilder) -> "_Candidate":
        generation_store = self._maintenance_context.generation_store
        unfinished = (await generation_store.generations()).draft
        if unfinished is not None:
            await generation_store.discard(unfinished)
        name = await generation_store.begin()
        return _Candidate(name, await generation_store.open(name, _recipe(maker)))

    @asynccontextmanager
    async def _candidate(self, candidate: "_Candidate") -> AsyncIterator["_Candidate"]:
        """Closes it at the end unless it has become the live generation."""
        try:
            yield candidate
        finally:
            if not candidate.live:
                await candidate.store.aclose()

    async def _replace(
        self, progress: Progress, maker: PointBuilder, candidate: "_Candidate", min_overlap: float | None
    ) -> dict[str, Any]:
        """Bring the candidate to what the live generation holds, check it, and serve from it."""
        context, source, target = self._maintenance_context, self._maintenance_context.store(), candidate.store
        copier = Copier(source, target, maker, progress)
        context.journal.begin()
        try:
            await copier.everything()
            await self._catch_up(copier)
            progress.enter("checking")
            check = RecallCheck(source, context.maker(), target, maker, context.receipts)
            report = await check.run(sorted({tenant for tenant, _ in copier.digests}))
            if min_overlap is not None:
                report.demand(min_overlap)
            progress.enter("switching")
            async with context.write_barrier.closed():
                await copier.some(context.journal.take())
                if not context.generation_store.shared:
                    await check_counts(source, target, copier.unreadable)
                await self._promote(candidate, maker)
        finally:
            context.journal.end()
        late = await self._settle(copier, maker, progress) if context.generation_store.shared else 0
        return {"reindexed": len(copier.digests), "live": candidate.name, "late_writes": late, **asdict(report)}

    async def _catch_up(self, copier: Copier) -> None:
        """Copy what is written meanwhile until little of it is left, so that writes are held back only shortly."""
        for _ in range(CATCH_UPS):
            changed = self._maintenance_context.journal.take()
            await copier.some(changed)
            if len(changed) < SMALL:
                break
        if self._maintenance_context.generation_store.shared:
            await copier.everything()

    async def _settle(self, copier: Copier, maker: PointBuilder, progress: Progress) -> int:
        """Other processes have written to the former generation until they noticed; bring that over."""
        generation_store = self._maintenance_context.generation_store
        progress.enter("settling")
        former = await generation_store.open((await generation_store.generations()).previous[0], _recipe(maker))
        try:
            late = await copier.settle(former)
            await asyncio.sleep(generation_store.settle_s)
            return late + await copier.settle(former)
        finally:
            await former.aclose()

    async def _promote(self, candidate: "_Candidate", maker: PointBuilder) -> None:
        await candidate.store.flush()
        await self._maintenance_context.generation_store.promote(candidate.name)
        candidate.live = True
        await self._maintenance_context.adopt(candidate.name, candidate.store, maker.embedder)
        log.info("store_generation_promoted", generation=candidate.name)


@dataclass
class _Candidate:
    """A generation that is to become the live one."""

    name: str
    store: WholeStore
    live: bool = False


def _recipe(maker: PointBuilder) -> Recipe:
    return Recipe(maker.embedder.profile if maker.embedder else None, maker.sparse.config_hash)


async def _list_to(writer: BackupWriter, store: WholeStore, progress: Progress, *, vectors: bool) -> None:
    progress.enter("copying", (await store.health()).points)
    cursor = None
    while True:
        page = await store.listing(limit=PAGE, cursor=cursor, vectors=vectors)
        if page.unreadable:
            raise StoreError(f"{page.unreadable} memories cannot be read and would be missing from the backup")
        await asyncio.to_thread(writer.memories, page.entries)
        progress.done += len(page.entries)
        cursor = page.cursor
        if cursor is None:
            return


async def _append_changes(writer: BackupWriter, store: WholeStore, changed: Sequence[Address]) -> None:
    """What was written while the rest was copied, without vectors: they are made anew when it is restored."""
    for tenant, ids in grouped(changed).items():
        found = await store.tenant(tenant).get(ids)
        gone = sorted(set(ids) - {memory.id for memory in found})
        await asyncio.to_thread(writer.memories, [Listed(tenant, memory) for memory in found])
        await asyncio.to_thread(writer.forgotten, tenant, gone)


async def _read_from(reader: BackupReader, target: WholeStore, maker: PointBuilder, progress: Progress) -> None:
    progress.enter("restoring", reader.manifest.lines)
    pages = reader.pages(PAGE)
    while page := await asyncio.to_thread(next, pages, None):
        latest: dict[Address, Listed | DeletedSince] = {}
        for line in page:
            latest[line.tenant, line.id if isinstance(line, DeletedSince) else line.memory.id] = line
        kept = [line for line in latest.values() if isinstance(line, Listed)]
        gone = [address for address, line in latest.items() if isinstance(line, DeletedSince)]
        for tenant, entries in by_tenant(kept).items():
            await target.tenant(tenant).put(await maker.stored(entries, reader.manifest.made_by))
        for tenant, ids in grouped(gone).items():
            await target.tenant(tenant).delete(ids)
        progress.done += len(page)
