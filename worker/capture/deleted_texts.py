"""Captures as they are shown and kept: without what memories said that were deleted since. Pure."""

from collections.abc import Set as AbstractSet

from worker.domain.capture import CapturedChange, CaptureReceipt, DropReason, Stored
from worker.receipts.explaining import DELETED

OF_MEMORIES = frozenset({Stored.CREATED, Stored.UNCHANGED, Stored.UNDONE})
"""What has the id of a memory; the ids of others are those of proposals."""


def memories_of(receipt: CaptureReceipt) -> frozenset[str]:
    """Return the ids of the memories that a capture stored or found."""
    changed = (one.id for one in receipt.changes if one.stored in OF_MEMORIES)
    known = (one.of for one in receipt.drops if one.reason is DropReason.KNOWN and one.of is not None)
    return frozenset((*changed, *known))


def without_texts_of(receipt: CaptureReceipt, gone: AbstractSet[str]) -> CaptureReceipt:
    """Return a capture without the texts of deleted memories and the words that they rested on."""
    changes = tuple(_erased(one) if one.stored in OF_MEMORIES and one.id in gone else one for one in receipt.changes)
    drops = tuple(one.model_copy(update={"text": ""}) if one.of in gone else one for one in receipt.drops)
    return receipt.model_copy(update={"changes": changes, "drops": drops})


def _erased(one: CapturedChange) -> CapturedChange:
    update = {"content": DELETED, "context": None, "entities": (), "cues": (), "evidence": None}
    memory = one.change.memory.model_copy(update=update)
    return one.model_copy(update={"change": one.change.model_copy(update={"memory": memory})})
