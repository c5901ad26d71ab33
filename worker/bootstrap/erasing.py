"""Open what erases the texts of deleted memories from receipts."""

from contextlib import AsyncExitStack
from typing import Any

from worker.adapters.redis.capture_texts import RedisCaptureTexts
from worker.adapters.redis.erasing import RedisErasures
from worker.operations.lasting import polled
from worker.ports.state import ReceiptStore
from worker.receipts.erasing import ReceiptErasing
from worker.settings.service import ServiceSettings

from .opening import open_receipts, utc_now

EVERY_S = 10.0
"""Seconds between looks for what is due."""


def open_erasing(
    service: ServiceSettings, redis: Any | None, receipts: ReceiptStore, stack: AsyncExitStack
) -> ReceiptErasing:
    """Return what erases; a service also does it in receipts that commands wrote while none ran, until `stack` closes.

    A command erases at once.
    """
    if redis is None:
        return ReceiptErasing((receipts,), None, utc_now)
    stores = receipts, open_receipts(service, None), RedisCaptureTexts(redis)
    erasing = ReceiptErasing(stores, RedisErasures(redis, service.receipt_ttl_s), utc_now)
    stack.push_async_callback(polled("erase-receipts", erasing.erase_due, EVERY_S).aclose)
    return erasing
