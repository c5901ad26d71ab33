"""Receipts in Redis.

- `meeseeks:receipt:<tenant>:<id>`: a receipt as JSON
- `meeseeks:receipt-line:<tenant>:<id>`: its line in the list, as JSON
- `meeseeks:receipts-by-time:<tenant>`: ids of the tenant's receipts by when they were written
- `meeseeks:receipts-of-turn:<hash>`: ids of the receipts of a turn, newest first
- `meeseeks:receipts:<tenant>`: the newest ids as former versions listed them, which are taken over when they are found
"""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from math import ceil, inf
from typing import Any
from urllib.parse import quote

from pydantic import ValidationError

from worker.domain.errors import BadCursor, NotFound
from worker.domain.receipt import Receipt, ReceiptPage, TurnOf, erased_json, turn_of
from worker.domain.receipt_summary import ReceiptSummary, SummaryPage, summary_of

from .faults import redis_errors

RECEIPT_PREFIX = "meeseeks:receipt:"
LINE_PREFIX = "meeseeks:receipt-line:"
BY_TIME_PREFIX = "meeseeks:receipts-by-time:"
FORMER_PREFIX = "meeseeks:receipts:"
TURN_PREFIX = "meeseeks:receipts-of-turn:"
KEPT_OF_TURN = 10
MOST_BEGINNING = 10
"""Receipts to return of those that begin alike."""

SCANNED = 10_000
ERASED_TOGETHER = 50
"""Receipts to read at a time, to erase texts in them."""

STEP_S = 0.001
"""Seconds between receipts of a former version whose times say nothing, so that they keep their order."""

LOOK_AGAIN_S = 60.0
"""Seconds after which the list of a former version is looked for again."""

TIMEOUT_S = 2.0


class RedisReceipts:
    """Implement `worker.ports.state.ReceiptStore`. Methods raise `QueueError` within `TIMEOUT_S` seconds.

    Receipts and their lines expire after `ttl_s` seconds.
    """

    def __init__(self, redis: Any, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s
        self._look_again: dict[str, float] = {}

    async def write(self, receipt: Receipt) -> None:
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            key = _key(RECEIPT_PREFIX, receipt.request.scope.tenant, receipt.id)
            pipe.set(key, receipt.model_dump_json(), ex=self._ttl_s)
            self._queue_listing(pipe, receipt, time.time())
            turn = _turn_key(turn_of(receipt.request))
            pipe.lrem(turn, 1, receipt.id)
            pipe.lpush(turn, receipt.id)
            pipe.ltrim(turn, 0, KEPT_OF_TURN - 1)
            pipe.expire(turn, self._ttl_s)
            await pipe.execute()

    def _queue_listing(self, pipe: Any, receipt: Receipt, written: float) -> None:
        """List a receipt for as long as it is kept, which began when it was written."""
        tenant, now = receipt.request.scope.tenant, time.time()
        listing, left_s = _key(BY_TIME_PREFIX, tenant), max(1, ceil(written + self._ttl_s - now))
        pipe.set(_key(LINE_PREFIX, tenant, receipt.id), summary_of(receipt).model_dump_json(), ex=left_s)
        pipe.zadd(listing, {receipt.id: written})
        pipe.zremrangebyscore(listing, "-inf", now - self._ttl_s)
        pipe.expire(listing, self._ttl_s)

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        async with redis_errors(TIMEOUT_S):
            stored = await self._redis.get(_key(RECEIPT_PREFIX, tenant, receipt_id))
        receipt = _parsed(stored)
        if receipt is None:
            raise NotFound(f"there is no receipt {receipt_id}")
        return receipt

    async def several(self, tenant: str, ids: Sequence[str]) -> list[Receipt]:
        async with redis_errors(TIMEOUT_S):
            return await self._read(tenant, ids)

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        if limit <= 0:
            return ReceiptPage()
        async with redis_errors(TIMEOUT_S):
            await self._take_over(tenant)
            ids = await self._ids(tenant, offset, limit)
            return ReceiptPage(receipts=tuple(await self._read(tenant, ids)), end=len(ids) < limit)

    async def summaries(self, tenant: str, limit: int, *, after: str | None = None) -> SummaryPage:
        async with redis_errors(TIMEOUT_S):
            await self._take_over(tenant)
            ids = await self._ids(tenant, await self._begin(tenant, after), limit + 1)
            here = ids[:limit]
            lines = await self._redis.mget([_key(LINE_PREFIX, tenant, one) for one in here]) if here else []
            last = await self._redis.zscore(_key(BY_TIME_PREFIX, tenant), here[-1]) if len(ids) > limit else None
        cursor = None if last is None else f"{float(last)!r}.{here[-1]}"
        return SummaryPage(summaries=tuple(one for one in map(_line, lines) if one is not None), cursor=cursor)

    async def beginning(self, tenant: str, prefix: str) -> list[str]:
        found: list[str] = []
        pattern = "".join(f"[{letter}]" for letter in prefix if letter not in "[]^-\\")
        async with redis_errors(TIMEOUT_S):
            await self._take_over(tenant)
            cursor = 0
            while len(found) < MOST_BEGINNING:
                listing = _key(BY_TIME_PREFIX, tenant)
                cursor, some = await self._redis.zscan(listing, cursor, match=f"{pattern}*", count=SCANNED)
                found += [one for raw, _ in some if (one := raw.decode()).startswith(prefix)]
                if cursor == 0:
                    break
        return found

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        async with redis_errors(TIMEOUT_S):
            ids = await self._redis.lrange(_turn_key(turn), 0, KEPT_OF_TURN - 1)
            return await self._read(turn.tenant, [raw.decode() for raw in ids])

    async def erase(self, tenant: str, gone: Mapping[str, datetime]) -> int:
        listing, erased, begin = _key(BY_TIME_PREFIX, tenant), 0, 0
        async with redis_errors(TIMEOUT_S):
            await self._take_over(tenant)
        while True:
            async with redis_errors(TIMEOUT_S):
                here = begin, begin + ERASED_TOGETHER - 1  # the newest first: the oldest expire meanwhile
                listed = await self._redis.zrange(listing, *here, desc=True, withscores=True)
                erased += await self._erase(tenant, [(raw.decode(), written) for raw, written in listed], gone)
            begin += len(listed)
            if len(listed) < ERASED_TOGETHER:
                return erased

    async def _erase(self, tenant: str, listed: Sequence[tuple[str, float]], gone: Mapping[str, datetime]) -> int:
        """Erase texts from some receipts, given with when they were written; return how many changed."""
        keys = [_key(RECEIPT_PREFIX, tenant, one) for one, _ in listed]
        stored = await self._redis.mget(keys) if keys else []
        changed = 0
        for key, (_, written), raw in zip(keys, listed, stored, strict=True):
            ids = {one for one, until in gone.items() if written <= until.timestamp()}
            erased = erased_json(raw, ids) if raw is not None else None
            if erased is not None:
                await self._redis.set(key, erased, xx=True, keepttl=True)
                changed += 1
        return changed

    async def _ids(self, tenant: str, begin: int, limit: int) -> list[str]:
        ids = await self._redis.zrange(_key(BY_TIME_PREFIX, tenant), begin, begin + limit - 1, desc=True)
        return [raw.decode() for raw in ids]

    async def _begin(self, tenant: str, after: str | None) -> int:
        """Return the place that follows the cursor, by time if its receipt has expired. Raise `BadCursor`."""
        if after is None:
            return 0
        written, known = _position(after)
        listing = _key(BY_TIME_PREFIX, tenant)
        rank = await self._redis.zrevrank(listing, known)
        return int(await self._redis.zcount(listing, written, "+inf") if rank is None else rank + 1)

    async def _take_over(self, tenant: str) -> None:
        """Move the list of a former version into the one by time. One that still runs may go on with it for a while."""
        now = time.monotonic()
        if now < self._look_again.get(tenant, -inf):
            return
        former = FORMER_PREFIX + quote(tenant, safe="")
        ids = [raw.decode() for raw in await self._redis.lrange(former, 0, -1)]
        if not ids:
            self._look_again[tenant] = now + LOOK_AGAIN_S
            return
        async with self._redis.pipeline(transaction=True) as pipe:
            oldest = time.time() - self._ttl_s + 1
            for place, receipt in enumerate(reversed(await self._read(tenant, ids))):
                self._queue_listing(pipe, receipt, max(receipt.at.timestamp(), oldest + place * STEP_S))
            pipe.delete(former)
            await pipe.execute()

    async def _read(self, tenant: str, ids: Sequence[str]) -> list[Receipt]:
        stored = await self._redis.mget([_key(RECEIPT_PREFIX, tenant, one) for one in ids]) if ids else []
        return [receipt for receipt in map(_parsed, stored) if receipt is not None]


def _key(prefix: str, *parts: str) -> str:
    return prefix + ":".join(quote(part, safe="") for part in parts)


def _turn_key(turn: TurnOf) -> str:
    parts = json.dumps([turn.tenant, turn.session_id, turn.agent_id, turn.turn_id])
    return TURN_PREFIX + hashlib.sha256(parts.encode()).hexdigest()


def _position(cursor: str) -> tuple[float, str]:
    whole, _, rest = cursor.partition(".")
    part, _, receipt_id = rest.partition(".")
    if not (whole.isdecimal() and part.isdecimal() and cursor.isascii() and len(whole) < 15 and receipt_id):
        raise BadCursor("cursor: unknown; use the cursor of the previous page")
    return float(f"{whole}.{part}"), receipt_id


def _parsed(stored: bytes | None) -> Receipt | None:
    if stored is None:
        return None
    try:
        return Receipt.model_validate_json(stored)
    except ValidationError:
        return None


def _line(stored: bytes | None) -> ReceiptSummary | None:
    if stored is None:
        return None
    try:
        return ReceiptSummary.model_validate_json(stored)
    except ValidationError:
        return None
