"""Receipts in Redis: one key per receipt, a list of the newest per tenant, and a list per turn."""

import hashlib
import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from worker.domain.errors import NotFound
from worker.domain.receipt import Receipt, ReceiptPage, TurnOf, turn_of

from .faults import redis_errors

RECEIPT_PREFIX = "meeseeks:receipt:"
RECENT_PREFIX = "meeseeks:receipts:"
TURN_PREFIX = "meeseeks:receipts-of-turn:"
KEPT_RECENT = 1_000
KEPT_OF_TURN = 10
TIMEOUT_S = 2.0


class RedisReceipts:
    """Implement `worker.ports.state.ReceiptStore`. Methods raise `QueueError` within `TIMEOUT_S` seconds.

    Receipts expire after `ttl_s` seconds; `recent` covers the last `KEPT_RECENT` of a tenant.
    """

    def __init__(self, redis: Any, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s

    async def write(self, receipt: Receipt) -> None:
        tenant = receipt.request.scope.tenant
        recent, turn = _recent_key(tenant), _turn_key(turn_of(receipt.request))
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(_receipt_key(tenant, receipt.id), receipt.model_dump_json(), ex=self._ttl_s)
            for listing, kept in ((recent, KEPT_RECENT), (turn, KEPT_OF_TURN)):
                pipe.lrem(listing, 1, receipt.id)
                pipe.lpush(listing, receipt.id)
                pipe.ltrim(listing, 0, kept - 1)
                pipe.expire(listing, self._ttl_s)
            await pipe.execute()

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        async with redis_errors(TIMEOUT_S):
            stored = await self._redis.get(_receipt_key(tenant, receipt_id))
        receipt = _parsed(stored)
        if receipt is None:
            raise NotFound(f"there is no receipt {receipt_id}")
        return receipt

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        if limit <= 0:
            return ReceiptPage()
        async with redis_errors(TIMEOUT_S):
            ids = await self._redis.lrange(_recent_key(tenant), offset, offset + limit - 1)
            return ReceiptPage(receipts=tuple(await self._read(tenant, ids)), end=len(ids) < limit)

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        async with redis_errors(TIMEOUT_S):
            ids = await self._redis.lrange(_turn_key(turn), 0, KEPT_OF_TURN - 1)
            return await self._read(turn.tenant, ids)

    async def _read(self, tenant: str, ids: Sequence[bytes]) -> list[Receipt]:
        stored = await self._redis.mget([_receipt_key(tenant, raw.decode()) for raw in ids]) if ids else []
        return [receipt for receipt in map(_parsed, stored) if receipt is not None]


def _receipt_key(tenant: str, receipt_id: str) -> str:
    return f"{RECEIPT_PREFIX}{quote(tenant, safe='')}:{quote(receipt_id, safe='')}"


def _recent_key(tenant: str) -> str:
    return RECENT_PREFIX + quote(tenant, safe="")


def _turn_key(turn: TurnOf) -> str:
    parts = json.dumps([turn.tenant, turn.session_id, turn.agent_id, turn.turn_id])
    return TURN_PREFIX + hashlib.sha256(parts.encode()).hexdigest()


def _parsed(stored: bytes | None) -> Receipt | None:
    if stored is None:
        return None
    try:
        return Receipt.model_validate_json(stored)
    except ValidationError:
        return None
