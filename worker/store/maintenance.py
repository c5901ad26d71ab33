"""Maintenance of whole stores: reindex, back up, restore, migrate and roll back.

Reads continue throughout. A change creates a new generation while the live one is in use. Writes made in the meantime
are recorded and copied at the end, while further writes wait briefly. Then the new generation becomes live in one step;
the previous one is kept until it is pruned.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import structlog

from worker.domain.errors import NotFound, StoreError
from worker.domain.pages import Listed
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.state import ReceiptStore
from worker.ports.store import Recipe, StoreGenerations, WholeStore

from .backup import BackupReader, BackupWriter, DeletedSince
from .copying import (
    PAGE,
    Address,
    ChangeLog,
    Copier,
    PointBuilder,
    Progress,
    by_tenant,
    check_counts,
    digests_of,
    examined,
    grouped,
    pages_of,
)
from .recall_check import RecallCheck
from .switching import WriteBarrier

CATCH_UPS = 5
"""Maximum rounds of copying recent writes before further writes have to wait."""

EXAMINING_S = 5.0
"""Maximum seconds to look for damaged memories."""

log = structlog.get_logger()

Adopt = Callable[[str, WholeStore, Embedder | None], Awaitable[None]]
"""Start serving from a generation: its name, the open store, and its embedder."""

Elsewhere = Callable[[str, Recipe], Awaitable[WholeStore]]
"""Open a store: `edge` or a URL."""


@dataclass(frozen=True, slots=True)
class MaintenanceContext:
    """Dependencies of `StoreMaintenance`. `store` and `maker` return those of the live generation.

    `retired` waits until replaced generations are closed.
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
    """Maintenance operations; each raises `StoreError` or `EmbedderError` without having changed anything."""

    def __init__(self, context: MaintenanceContext) -> None:
        self._context = context

    async def info(self) -> dict[str, Any]:
        """Describe the live generation and its damaged memories, and list the others."""
        store = self._context.store()
        health, record = await store.health(), await store.record()
        generations = await self._context.generation_store.generations()
        rows = asdict(await examined(store, EXAMINING_S))
        return {"store": asdict(health), "made_by": record.dump(), "generations": asdict(generations), "rows": rows}

    async def reindex(
        self, progress: Progress, *, embedder: str | None = None, force: bool = False, min_overlap: float = 0.3
    ) -> dict[str, Any]:
        """Compute the vectors of all memories with the configured models, or with `embedder`; resume if interrupted.

        Suitable dense vectors are reused unless `force` is set. Raise `StoreError` if the new generation lacks memories
        or, unless `force` is set, finds too little.
        """
        context = self._context
        maker = PointBuilder(await context.embedder(embedder), context.sparse, anew=force)
        if not force and await self._is_made_by(maker):
            return {"reindexed": 0, "reason": "all vectors are up to date; use --force to compute them again"}
        async with self._alone(), self._candidate(await self._draft(maker)) as draft:
            return await self._replace(progress, maker, draft, None if force else min_overlap)

    async def rollback(self, progress: Progress, *, embedder: str | None = None) -> dict[str, Any]:
        """Return to the previous generation, keeping everything written since."""
        context = self._context
        previous = (await context.generation_store.generations()).previous
        if not previous:
            raise NotFound("there is no previous generation")
        maker = PointBuilder(await context.embedder(embedder), context.sparse)
        await context.retired()
        former = _Candidate(previous[0], await context.generation_store.open(previous[0], _recipe(maker)))
        async with self._alone(), self._candidate(former):
            made_by = await former.store.record()
            if made_by != maker.record:
                raise StoreError(
                    f"the previous generation uses {made_by.embedder or 'no embedder'} and keyword index "
                    f"{made_by.bm25}; specify that embedder with --embedder or in the settings"
                )
            return await self._replace(progress, maker, former, None)

    async def prune(self, progress: Progress) -> dict[str, Any]:
        """Delete all generations that are not in use."""
        await self._context.retired()
        async with self._alone():
            generations = await self._context.generation_store.generations()
            others = [*generations.previous, *([generations.draft] if generations.draft else [])]
            progress.enter("deleting", len(others))
            for name in others:
                await self._context.generation_store.discard(name)
                progress.done += 1
        return {"deleted": others}

    async def backup(self, progress: Progress, path: Path) -> dict[str, Any]:
        """Write a backup to `path`, which must not exist: a folder, or a file that ends in `.tar.gz`."""
        context, store = self._context, self._context.store()
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
        """Replace the contents of the store by a backup; `force` is required unless the store is empty.

        Vectors from the same embedder are reused, others are computed again. What is written or deleted meanwhile
        applies to the restored memories, too.
        """
        context = self._context
        held = (await context.store().health()).points
        if held and not force:
            raise StoreError(f"the store has {held} memories; use --force to replace them (rollback can restore them)")
        progress.enter("checking")
        reader = await asyncio.to_thread(BackupReader.open, path)
        maker, source = context.maker(), context.store()
        context.journal.begin()
        try:
            before = await digests_of(source) if context.generation_store.shared else {}
            async with self._alone(), self._candidate(await self._fresh(maker)) as candidate:
                await _read_from(reader, candidate.store, maker, progress)
                found = (await candidate.store.health()).points
                if found != reader.manifest.memories:
                    raise StoreError(f"restored {found} memories, but the backup has {reader.manifest.memories}")
                copier = Copier(source, candidate.store, maker, progress)
                if context.generation_store.shared:
                    copier.digests = await digests_of(candidate.store)
                async with context.write_barrier.closed():
                    meanwhile = context.journal.take()
                    await copier.copy(meanwhile)
                    await self._promote(candidate, maker)
        finally:
            context.journal.end()
        late = await self._late_writes(copier, maker, progress, before, meanwhile)
        return {"restored": found, "replaced": held, "late_writes": len(meanwhile) + late}

    async def _late_writes(
        self,
        copier: Copier,
        maker: PointBuilder,
        progress: Progress,
        before: dict[Address, bytes],
        copied: Sequence[Address],
    ) -> int:
        """Copy what other processes wrote to the replaced store; `before` is what it had, `copied` what came later."""
        if not self._context.generation_store.shared:
            return 0
        for address in copied:
            if address in copier.digests:
                before[address] = copier.digests[address]
            else:
                before.pop(address, None)
        return await self._settle(copier, maker, progress, before)

    async def migrate(self, progress: Progress, to: str, *, force: bool = False) -> dict[str, Any]:
        """Copy everything to the store at `to`, `edge` or the URL of a server, without changing the settings."""
        context = self._context
        source, maker = context.store(), context.maker()
        target = await context.elsewhere(to, _recipe(maker))
        context.journal.begin()
        try:
            health = await target.health()
            if health.points and not force:
                raise StoreError(f"{to} already has {health.points} memories; use --force to replace them")
            if health.fault:
                raise StoreError(f"{to} cannot store these memories: {health.fault}")
            copier = Copier(source, target, maker, progress)
            await copier.copy_all()
            async with context.write_barrier.closed():
                await copier.copy(context.journal.take())
                found = await check_counts(source, target, copier.unreadable)
            await target.flush()
        finally:
            context.journal.end()
            await target.aclose()
        return {"migrated": found, "to": to}

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Keep other processes from changing generations, so that none discards the draft of another."""
        await self._context.store().health()  # the live generation exists from now on
        async with self._context.generation_store.exclusive():
            yield

    async def _is_made_by(self, maker: PointBuilder) -> bool:
        """Return whether the live generation has vectors by `maker` for all memories."""
        store = self._context.store()
        return await store.record() == maker.record and not (await store.health()).bare

    async def _draft(self, maker: PointBuilder) -> "_Candidate":
        """Return the unfinished generation if it was started with `maker`, otherwise a new one."""
        name = (await self._context.generation_store.generations()).draft
        if name is None:
            return await self._fresh(maker)
        draft = await self._context.generation_store.open(name, _recipe(maker))
        async with AsyncExitStack() as unusable:
            unusable.push_async_callback(draft.aclose)
            if await draft.record() == maker.record:
                unusable.pop_all()
                return _Candidate(name, draft)
        return await self._fresh(maker)

    async def _fresh(self, maker: PointBuilder) -> "_Candidate":
        generation_store = self._context.generation_store
        unfinished = (await generation_store.generations()).draft
        if unfinished is not None:
            await generation_store.discard(unfinished)
        name = await generation_store.begin()
        return _Candidate(name, await generation_store.open(name, _recipe(maker)))

    @asynccontextmanager
    async def _candidate(self, candidate: "_Candidate") -> AsyncIterator["_Candidate"]:
        """Close the candidate at the end unless it has become live."""
        try:
            yield candidate
        finally:
            if not candidate.live:
                await candidate.store.aclose()

    async def _replace(
        self, progress: Progress, maker: PointBuilder, candidate: "_Candidate", min_overlap: float | None
    ) -> dict[str, Any]:
        """Copy the live generation to the candidate, check it, and make it live."""
        context, source, target = self._context, self._context.store(), candidate.store
        copier = Copier(source, target, maker, progress)
        context.journal.begin()
        try:
            await copier.copy_all()
            await self._catch_up(copier)
            progress.enter("checking")
            check = RecallCheck(source, context.maker(), target, maker, context.receipts)
            report = await check.run(sorted({tenant for tenant, _ in copier.digests}))
            if min_overlap is not None:
                report.demand(min_overlap)
            progress.enter("switching")
            async with context.write_barrier.closed():
                await copier.copy(context.journal.take())
                if not context.generation_store.shared:
                    await check_counts(source, target, copier.unreadable)
                await self._promote(candidate, maker)
        finally:
            context.journal.end()
        late = await self._settle(copier, maker, progress) if context.generation_store.shared else 0
        return {"reindexed": len(copier.digests), "live": candidate.name, "late_writes": late, **asdict(report)}

    async def _catch_up(self, copier: Copier) -> None:
        """Copy recent writes until few are left, so that further writes have to wait only briefly."""
        for _ in range(CATCH_UPS):
            changed = self._context.journal.take()
            await copier.copy(changed)
            if len(changed) < PAGE:
                break
        if self._context.generation_store.shared:
            await copier.copy_all()

    async def _settle(
        self, copier: Copier, maker: PointBuilder, progress: Progress, known: dict[Address, bytes] | None = None
    ) -> int:
        """Copy what other processes wrote to the previous generation before they noticed the switch."""
        generation_store = self._context.generation_store
        progress.enter("settling")
        former = await generation_store.open((await generation_store.generations()).previous[0], _recipe(maker))
        try:
            late = await copier.settle(former, known)
            await asyncio.sleep(generation_store.settle_s)
            return late + await copier.settle(former, known)
        finally:
            await former.aclose()

    async def _promote(self, candidate: "_Candidate", maker: PointBuilder) -> None:
        await candidate.store.flush()
        await self._context.generation_store.promote(candidate.name)
        candidate.live = True
        await self._context.adopt(candidate.name, candidate.store, maker.embedder)
        log.info("store_generation_promoted", generation=candidate.name)


@dataclass
class _Candidate:
    """A generation that may become live."""

    name: str
    store: WholeStore
    live: bool = False


def _recipe(maker: PointBuilder) -> Recipe:
    return Recipe(maker.embedder.profile if maker.embedder else None, maker.sparse.config_hash)


async def _list_to(writer: BackupWriter, store: WholeStore, progress: Progress, *, vectors: bool) -> None:
    progress.enter("copying", (await store.health()).points)
    async for page in pages_of(store, vectors=vectors):
        if page.unreadable:
            raise StoreError(f"{page.unreadable} memories cannot be read, so the backup would be incomplete")
        await asyncio.to_thread(writer.memories, page.entries)
        progress.done += len(page.entries)


async def _append_changes(writer: BackupWriter, store: WholeStore, changed: Sequence[Address]) -> None:
    """Append what was written during the backup, without vectors, which a restore computes."""
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
