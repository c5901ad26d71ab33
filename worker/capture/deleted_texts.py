"""Captures as they are shown and kept: without what memories said that were deleted since. Pure."""

from collections.abc import Set as AbstractSet

from worker.domain.capture import CapturedChange, CaptureReceipt, DropReason, Proposal, Stored
from worker.receipts.explaining import DELETED

OF_MEMORIES = frozenset({Stored.CREATED, Stored.UNCHANGED, Stored.UNDONE})
"""What has the id of a memory; the ids of others are those of proposals."""


def memory_of(one: CapturedChange) -> str | None:
    """Return the id of the memory that a change stored, found or proposed as a replacement; `None` if there is none."""
    if one.change.known:
        return one.change.memory.id
    return one.id if one.stored in OF_MEMORIES else None


def memories_of(receipt: CaptureReceipt) -> frozenset[str]:
    """Return the ids of the memories that a capture tells of."""
    known = (one.of for one in receipt.drops if one.reason is DropReason.KNOWN)
    return frozenset(found for found in (*map(memory_of, receipt.changes), *known) if found is not None)


def without_texts_of(receipt: CaptureReceipt, gone: AbstractSet[str]) -> CaptureReceipt:
    """Return a capture without the texts of deleted memories and the words that they rested on."""
    changes = tuple(_erased(one) if memory_of(one) in gone else one for one in receipt.changes)
    drops = tuple(one.model_copy(update={"text": ""}) if one.of in gone else one for one in receipt.drops)
    return receipt.model_copy(update={"changes": changes, "drops": drops})


def quoted(proposal: Proposal) -> frozenset[str]:
    """Return the ids of the stored memories whose texts a proposal has."""
    change = proposal.change
    return frozenset({change.memory.id, change.target or change.memory.id}) if change.known else frozenset()


def _erased(one: CapturedChange) -> CapturedChange:
    update = {"content": DELETED, "context": None, "entities": (), "cues": (), "evidence": None}
    memory = one.change.memory.model_copy(update=update)
    return one.model_copy(update={"change": one.change.model_copy(update={"memory": memory})})
