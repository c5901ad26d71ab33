"""Decide on proposals, and undo captures."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from worker.domain.capture import (
    CapturedChange,
    CaptureReceipt,
    CaptureState,
    Change,
    ChangeKind,
    Proposal,
    Refusal,
    Stored,
)
from worker.domain.errors import MemoryRejected, NotFound
from worker.transfer.entries import changed, derived_id

from .deleted_texts import quoted
from .fingerprints import refusal_of
from .nearby import known_as
from .replacing import pair_refusal, replace, take_back
from .service import CaptureParts, write


class CaptureReview:
    """What people decide about captured memories."""

    def __init__(self, parts: CaptureParts) -> None:
        self._parts = parts

    async def proposals(self, tenant: str, user: str | None = None) -> list[Proposal]:
        """Return the proposals that wait, oldest first; with a user, only those of this user.

        One about a stored memory that was deleted meanwhile cannot be accepted, and goes.
        """
        found = await self._parts.captures.proposals(tenant, self._parts.clock())
        ids = frozenset[str]().union(*map(quoted, found))
        gone = ids - {memory.id for memory in await self._parts.memories.get(tenant, list(ids))} if ids else ids
        needless = {one.id for one in found if quoted(one) & gone}
        await self._parts.captures.take(tenant, needless)
        return [one for one in found if one.id not in needless and user in (None, one.source.user)]

    async def accept(self, tenant: str, proposal_id: str, text: str | None = None) -> tuple[str, Stored]:
        """Store a proposal, with another text if given; return the id of the memory.

        What was stored meanwhile is not stored again. Raise `NotFound`, or `MemoryRejected` if it cannot be stored; it
        then still waits.
        """
        proposal = await self._waiting(tenant, proposal_id)
        if proposal.change.known:
            return await self._replace(proposal, text)
        change = proposal.change if text is None else _edited(proposal.change, text)
        (others,) = await self._parts.nearby.near(proposal.source, [change.memory.content], self._parts.clock())
        rest = [near for near in others if near.memory.id != change.target]
        memory_id, stored = known_as(change.memory, rest), Stored.UNCHANGED
        if memory_id is None:
            await self._check_target(tenant, change)
            memory_id, stored = await write(self._parts, tenant, change)
        became = CapturedChange(change=change, stored=stored, id=memory_id)
        if not await self._decided(proposal, became) and stored is Stored.CREATED:
            await self._take_back(tenant, (became,))
            raise _decided_already(proposal)
        return memory_id, stored

    async def _replace(self, proposal: Proposal, text: str | None) -> tuple[str, Stored]:
        """Let a stored memory supersede another; take that back if it was rejected or undone meanwhile."""
        tenant = proposal.source.tenant
        newer, stored = await replace(self._parts.memories, tenant, proposal.change, text)
        became = CapturedChange(change=proposal.change, stored=stored, id=newer)
        if not await self._decided(proposal, became) and await self._is_refused(tenant, proposal.change):
            await self._take_back(tenant, (became,))
            raise _decided_already(proposal)
        return newer, stored

    async def reject(self, tenant: str, proposal_id: str) -> None:
        """Remove a proposal for good: the same is not proposed again. Raise `NotFound`."""
        proposal = await self._waiting(tenant, proposal_id)
        await self._refuse(tenant, [proposal.change])
        await self._decided(proposal, CapturedChange(change=proposal.change, stored=Stored.REJECTED, id=proposal.id))

    async def undo(self, tenant: str, capture_id: str) -> CaptureReceipt:
        """Delete what a capture has stored, reopen what it closed, and drop its proposals. Raise `NotFound`.

        What is accepted meanwhile is taken back, too.
        """
        while True:
            receipt = await self._parts.captures.read(tenant, capture_id)
            if receipt.state is CaptureState.UNDONE:
                return receipt
            changes = receipt.changes
            await self._refuse(tenant, [one.change for one in changes if one.stored is not Stored.UNCHANGED])
            await self._parts.captures.take(tenant, [one.id for one in changes if one.stored is Stored.PROPOSED])
            await self._take_back(tenant, changes)
            final = await self._parts.captures.revise(tenant, capture_id, partial(_undone, receipt))
            if final.state is CaptureState.UNDONE:
                return final

    async def _take_back(self, tenant: str, changes: Sequence[CapturedChange]) -> None:
        """Delete what was written, and make current what it replaced."""
        written = [one for one in changes if one.stored is Stored.CREATED]
        await self._parts.memories.forget(tenant, [one.id for one in written])
        for one in written:
            if one.change.target is not None and one.change.kind is not ChangeKind.ADD:
                await self._reopen(tenant, one.change.target, one.id)
        for one in changes:
            if one.stored is Stored.REPLACED:
                await take_back(self._parts.memories, tenant, one.change)

    async def _waiting(self, tenant: str, proposal_id: str) -> Proposal:
        waiting = await self._parts.captures.proposals(tenant, self._parts.clock())
        found = next((one for one in waiting if one.id == proposal_id), None)
        if found is None:
            raise NotFound(f"there is no proposal {proposal_id}; it was decided on, or has expired")
        return found

    async def _check_target(self, tenant: str, change: Change) -> None:
        if change.target is None or change.kind is ChangeKind.ADD:
            return
        present = await self._parts.memories.get(tenant, [change.target])
        if not present or present[0].superseded_by is not None:
            raise MemoryRejected(
                f"the memory {change.target} that this replaces was changed or deleted meanwhile; reject the proposal"
            )

    async def _refuse(self, tenant: str, changes: Sequence[Change]) -> None:
        salt = await self._parts.captures.salt()
        await self._parts.captures.refuse(tenant, [_refusal(change, salt) for change in changes])

    async def _is_refused(self, tenant: str, change: Change) -> bool:
        """Return whether somebody rejected or undid this change, which is noted before its proposal goes."""
        refusal = _refusal(change, await self._parts.captures.salt())
        return refusal in await self._parts.captures.refusals(tenant)

    async def _reopen(self, tenant: str, memory_id: str, replaced_by: str) -> None:
        """Make a memory current again, unless another one than `replaced_by` has replaced it."""
        for present in await self._parts.memories.get(tenant, [memory_id]):
            if present.superseded_by in (None, replaced_by):
                with suppress(NotFound):  # deleted meanwhile
                    changes = {"superseded_by": None, "superseded_at": None}
                    await self._parts.memories.update(tenant, memory_id, changes)

    async def _decided(self, proposal: Proposal, became: CapturedChange) -> bool:
        """Remove a proposal, and note what became of it in the receipt of its capture, if that is still kept.

        Return whether nobody else decided on it meanwhile.
        """
        if not await self._parts.captures.take(proposal.source.tenant, [proposal.id]):
            return False
        with suppress(NotFound):
            noted = partial(_noted, proposal.id, became)
            receipt = await self._parts.captures.revise(proposal.source.tenant, proposal.capture, noted)
            return receipt.state is not CaptureState.UNDONE
        return True


def _decided_already(proposal: Proposal) -> NotFound:
    return NotFound(f"proposal {proposal.id} was decided on, or its capture undone, at the same time")


def _noted(proposal_id: str, became: CapturedChange, receipt: CaptureReceipt) -> CaptureReceipt:
    """Return the receipt with what became of a proposal, unless the capture was undone."""
    if receipt.state is CaptureState.UNDONE:
        return receipt
    changes = tuple(became if one.id == proposal_id else one for one in receipt.changes)
    return receipt.model_copy(update={"changes": changes})


def _undone(known: CaptureReceipt, receipt: CaptureReceipt) -> CaptureReceipt:
    """Return the receipt as undone, unless it is no more what was taken back."""
    if receipt != known:
        return receipt
    changes = tuple(one.model_copy(update={"stored": Stored.UNDONE}) for one in receipt.changes)
    return receipt.model_copy(update={"state": CaptureState.UNDONE, "changes": changes})


def _refusal(change: Change, salt: str) -> Refusal:
    """Return what keeps a change from coming back; a memory that is stored already may stay."""
    if change.known:
        return pair_refusal(salt, change.memory.id, change.target or "")
    return refusal_of(change.memory, salt, lasting=True)


def _edited(change: Change, text: str) -> Change:
    """Return the change with the text of whoever reviewed it."""
    bare = change.memory.model_dump(exclude={"id"}) | {"content": text}
    memory = changed(change.memory, {"content": text, "id": derived_id(bare)})
    return change.model_copy(update={"memory": memory})
