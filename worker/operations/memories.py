"""Handlers for storing, showing, changing and deleting memories."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

from worker.capture.refusals import Refusals
from worker.domain.deadline import Deadline
from worker.domain.deleted import UNDO_S
from worker.domain.errors import MeeseeksError, NotFound, QueueError
from worker.domain.memory import Memory
from worker.domain.operation import AnyHandler
from worker.ports.state import DeletedMemories, UsageStore
from worker.store.memories import MemoryService
from worker.transfer.entries import changed, memory_from

from . import registry
from .requests import (
    AddCuesRequest,
    ForgetRequest,
    IdRequest,
    PutRequest,
    RelateRequest,
    RememberRequest,
    UndoRequest,
    UpdateRequest,
)
from .results import AddCuesResult, ForgetResult, MemoryHistory, MemoryResult, PutResult, RememberResult, UndoResult
from .usage import counts_of


class MemoryOperations:
    """`mask` masks secrets before a memory's id is derived from its content. Without `deleted`, nothing is undone."""

    def __init__(
        self,
        memories: MemoryService,
        usage: UsageStore,
        clock: Callable[[], datetime],
        *,
        mask: bool = False,
        deleted: DeletedMemories | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self._memories = memories
        self._usage = usage
        self._clock = clock
        self._mask = mask
        self._deleted = deleted
        self._refusals = refusals or Refusals(None)

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (
            registry.REMEMBER.bind(self.remember),
            registry.PUT.bind(self.put),
            registry.UPDATE.bind(self.update),
            registry.ADD_CUES.bind(self.add_cues),
            registry.RELATE.bind(self.relate),
            registry.FORGET.bind(self.forget),
            registry.UNDO.bind(self.undo),
            registry.SHOW.bind(self.show),
        )

    async def remember(self, request: RememberRequest, deadline: Deadline) -> RememberResult:
        memory = memory_from(request.memory, None, mask=self._mask)
        if request.again:
            await self._refusals.allow(request.tenant, [memory])
        else:
            await self._refusals.check(request.tenant, memory)
        keep_same = "id" not in request.memory
        report = await self._memories.remember(request.tenant, memory, now=self._clock(), keep_same=keep_same)
        stored = "created" if report.created else "updated" if report.updated else "unchanged"
        (kept,) = report.created or report.updated or report.unchanged
        return RememberResult(
            id=kept,
            stored=stored,
            without_vector=bool(report.without_vector),
            general_cues=list(report.general_cues),
        )

    async def put(self, request: PutRequest, deadline: Deadline) -> PutResult:
        refused = await self._refusals.refused(request.tenant, request.memories)
        memories = [one for one in request.memories if one.id not in refused]
        report = await self._memories.put(request.tenant, memories, now=self._clock(), mask=request.mask)
        same, replaced = _repeated(memories)
        return PutResult(
            created=len(report.created),
            updated=len(report.updated) + replaced,
            unchanged=len(report.unchanged) + same,
            without_vector=report.without_vector,
            rejected_before=len(request.memories) - len(memories),
        )

    async def update(self, request: UpdateRequest, deadline: Deadline) -> MemoryResult:
        if {"content", "scope"} & request.changes.keys():
            await self._check_change(request)
        return MemoryResult(memory=await self._memories.update(request.tenant, request.id, request.changes))

    async def _check_change(self, request: UpdateRequest) -> None:
        """Raise `MemoryRejected` if a memory would say what was refused, unless it is wanted again."""
        for known in await self._memories.get(request.tenant, [request.id]):
            memory = changed(known, request.changes)
            if request.again:
                await self._refusals.allow(request.tenant, [memory])
            elif (memory.content, memory.scope) != (known.content, known.scope):
                await self._refusals.check(request.tenant, memory)

    async def add_cues(self, request: AddCuesRequest, deadline: Deadline) -> AddCuesResult:
        added = [
            one.id
            for one in request.memories
            if await self._memories.add_cues(request.tenant, one.id, one.cues, version=one.version)
        ]
        return AddCuesResult(added=added, left=[one.id for one in request.memories if one.id not in added])

    async def relate(self, request: RelateRequest, deadline: Deadline) -> MemoryResult:
        memory = await self._memories.relate(request.tenant, request.source, request.kind, request.target)
        return MemoryResult(memory=memory)

    async def forget(self, request: ForgetRequest, deadline: Deadline) -> ForgetResult:
        dropped = await self._drop(request) if request.permanent else 0
        undo_s = 0 if request.permanent else await self._keep(request)
        await self._refusals.deleted(request.tenant, await self._memories.get(request.tenant, request.ids))
        forgotten = dropped + await self._memories.forget(request.tenant, request.ids, permanent=request.permanent)
        with suppress(QueueError):  # the counts of a deleted memory expire
            await self._usage.forget(request.tenant, request.ids)
        return ForgetResult(forgotten=forgotten, undo_s=undo_s if forgotten else 0)

    async def _keep(self, request: ForgetRequest) -> int:
        """Keep memories that are about to be deleted; return for how many seconds."""
        if self._deleted is None:
            return 0
        found = await self._memories.deletable(request.tenant, request.ids)
        with suppress(QueueError):
            if found:
                await self._deleted.keep(request.tenant, found)
                return UNDO_S
        return 0

    async def _drop(self, request: ForgetRequest) -> int:
        """Keep deleted memories no longer; return the number of those that are not stored again."""
        if self._deleted is None:
            return 0
        dropped = await self._deleted.drop(request.tenant, request.ids)
        stored = await self._memories.get(request.tenant, list(dropped))
        return len(dropped) - len(stored)

    async def undo(self, request: UndoRequest, deadline: Deadline) -> UndoResult:
        found = await self._deleted.take(request.tenant, request.ids) if self._deleted else []
        if not found or self._deleted is None:
            raise NotFound(
                f"nothing to undo: a running service keeps deleted memories for {UNDO_S // 60} minutes, until it stops"
            )
        try:
            restored = await self._memories.restore(request.tenant, found)
            await self._refusals.allow(request.tenant, [one.memory for one in found])
            return UndoResult(restored=restored)
        except MeeseeksError:
            with suppress(QueueError):  # so that it can be tried again
                await self._deleted.keep(request.tenant, found)
            raise

    async def show(self, request: IdRequest, deadline: Deadline) -> MemoryHistory:
        found = await self._memories.show(request.tenant, request.id)
        counts = None
        with suppress(QueueError):
            counts = (await self._usage.read(request.tenant, [request.id])).get(request.id)
        return MemoryHistory(
            memory=found.memory,
            earlier=list(found.earlier),
            later=list(found.later),
            related=list(found.related),
            usage=counts_of(counts) if counts else None,
        )


def _repeated(memories: Sequence[Memory]) -> tuple[int, int]:
    """Return how many of these a later one with the same id repeats, and how many it replaces. Pure."""
    latest = {memory.id: memory for memory in memories}
    repeats = sum(memory == latest[memory.id] for memory in memories) - len(latest)
    return repeats, len(memories) - len(latest) - repeats
