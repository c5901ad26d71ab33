"""Receipts as they are shown: without the texts of memories that were deleted since."""

from collections.abc import Sequence

from worker.domain.receipt import Receipt, without_texts_of
from worker.ports.state import ReceiptStore
from worker.ports.store import StoreEngine

from .search import read_receipt

BATCH = 1_000
"""Memories to look for at a time."""


async def read_shown(receipts: ReceiptStore, engine: StoreEngine, tenant: str, receipt_id: str) -> Receipt:
    """Return what `read_receipt` does, without texts of deleted memories."""
    (shown,) = await without_deleted([await read_receipt(receipts, tenant, receipt_id)], tenant, engine)
    return shown


async def without_deleted(receipts: Sequence[Receipt], tenant: str, engine: StoreEngine) -> list[Receipt]:
    """Return the receipts of a tenant without texts of memories that are no longer stored, and blocks that show them.

    Raise `StoreError` if the store cannot say which these are.
    """
    ids = list(frozenset[str]().union(*map(_mentioned, receipts)))
    stored = frozenset[str]()
    for start in range(0, len(ids), BATCH):
        found = await engine.tenant(tenant).get(ids[start : start + BATCH])
        stored |= {memory.id for memory in found}
    return [without_texts_of(receipt, _mentioned(receipt) - stored) for receipt in receipts]


def _mentioned(receipt: Receipt) -> frozenset[str]:
    return frozenset((*(one.id for one in receipt.considered), *receipt.chosen))
