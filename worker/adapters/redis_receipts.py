"""Receipts in Redis: one value each, and per tenant the list of the newest ones."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError
from redis.exceptions import RedisError

from hooks.contract import Reason

from ..errors import NotFound, QueueError
from ..receipt import Receipt

RECEIPT_PREFIX = "meeseeks:receipt:"
RECENT_PREFIX = "meeseeks:receipts:"
KEPT_RECENT = 1_000
TIMEOUT_S = 2.0


class RedisReceipts:
    """Implements `worker.protocols.ReceiptStore`. Methods raise `QueueError` within `TIMEOUT_S` seconds.

    Receipts are kept for `ttl_s` seconds; `recent` knows the last `KEPT_RECENT` of a tenant.
    """

    def __init__(self, redis: Any, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s

    async def write(self, receipt: Receipt) -> None:
        """Keep a receipt under the tenant of its request."""
        tenant = receipt.request.scope.tenant
        recent = _recent_key(tenant)
        async with _faults(), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(_receipt_key(tenant, receipt.id), receipt.model_dump_json(), ex=self._ttl_s)
            pipe.lrem(recent, 1, receipt.id)
            pipe.lpush(recent, receipt.id)
            pipe.ltrim(recent, 0, KEPT_RECENT - 1)
            pipe.expire(recent, self._ttl_s)
            await pipe.execute()

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        """A receipt by its id. Raises `NotFound`, also for one that another version wrote in another form."""
        async with _faults():
            stored = await self._redis.get(_receipt_key(tenant, receipt_id))
        receipt = _parsed(stored)
        if receipt is None:
            raise NotFound(f"there is no receipt {receipt_id}")
        return receipt

    async def recent(self, tenant: str, limit: int) -> list[Receipt]:
        """The newest receipts first, at most `limit`."""
        if limit <= 0:
            return []
        async with _faults():
            ids = await self._redis.lrange(_recent_key(tenant), 0, limit - 1)
            stored = await self._redis.mget([_receipt_key(tenant, raw.decode()) for raw in ids]) if ids else []
        return [receipt for receipt in map(_parsed, stored) if receipt is not None]


def _receipt_key(tenant: str, receipt_id: str) -> str:
    return f"{RECEIPT_PREFIX}{quote(tenant, safe='')}:{quote(receipt_id, safe='')}"


def _recent_key(tenant: str) -> str:
    return RECENT_PREFIX + quote(tenant, safe="")


def _parsed(stored: bytes | None) -> Receipt | None:
    if stored is None:
        return None
    try:
        return Receipt.model_validate_json(stored)
    except ValidationError:
        return None


@asynccontextmanager
async def _faults() -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            yield
    except (RedisError, OSError) as error:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, f"receipts are out of reach: {type(error).__name__}") from error
