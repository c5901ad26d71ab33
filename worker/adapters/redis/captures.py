"""Captures in Redis, shared by workers.

- `meeseeks:capture:<tenant>:<id>`: a receipt as JSON, for as long as receipts are kept
- `meeseeks:captures:<tenant>`: the ids of the newest captures that found anything
- `meeseeks:captured:<hash of tenant and user>`: a sorted set of turns by the time of their capture
- `meeseeks:proposals:<tenant>`: a hash of proposals as JSON
- `meeseeks:refusals:<tenant>`: a hash of refusals as JSON, permanent
- `meeseeks:refusals-state:<tenant>`: a random text that is dropped with every change of the refusals
- `meeseeks:capture-salt`: the key of fingerprints, permanent
"""

import hashlib
import json
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from worker.domain.capture import PROPOSAL_DAYS, CaptureReceipt, CaptureSource, Proposal, Refusal
from worker.domain.errors import NotFound
from worker.ports.capture import Revision

from .faults import redis_errors

RECEIPT_PREFIX = "meeseeks:capture:"
RECENT_PREFIX = "meeseeks:captures:"
TURNS_PREFIX = "meeseeks:captured:"
PROPOSALS_PREFIX = "meeseeks:proposals:"
REFUSALS_PREFIX = "meeseeks:refusals:"
REFUSALS_STATE_PREFIX = "meeseeks:refusals-state:"
SALT_KEY = "meeseeks:capture-salt"
KEPT_RECENT = 200
KEPT_TURNS = 50_000
"""Turns of a user that are known to be captured, the latest."""

MOST_TENANTS = 100
"""Tenants whose refusals are kept in memory."""

TURNS_KEPT_S = 90 * 86_400
TIMEOUT_S = 2.0

REPLACE = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1
"""
"""KEYS: receipt. ARGV: what it was, what it becomes, seconds."""


class RedisCaptures:
    """Implement `worker.ports.capture.CaptureStore`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s
        self._refusals: dict[str, tuple[bytes | None, list[Refusal]]] = {}

    async def captured(self, source: CaptureSource, keys: Sequence[str]) -> frozenset[str]:
        if not keys:
            return frozenset()
        async with redis_errors(TIMEOUT_S):
            scores = await self._redis.zmscore(_turns_key(source), list(keys))
        return frozenset(key for key, score in zip(keys, scores, strict=True) if score is not None)

    async def begin(self, receipt: CaptureReceipt) -> CaptureReceipt:
        key = _receipt_key(receipt.source.tenant, receipt.id)
        async with redis_errors(TIMEOUT_S):
            await self._redis.set(key, receipt.model_dump_json(), ex=self._ttl_s, nx=True)
            kept = await self._redis.get(key)
        return CaptureReceipt.model_validate_json(kept) if kept else receipt

    async def finish(self, receipt: CaptureReceipt, proposals: Sequence[Proposal]) -> None:
        tenant, turns, at = receipt.source.tenant, _turns_key(receipt.source), receipt.at.timestamp()
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(_receipt_key(tenant, receipt.id), receipt.model_dump_json(), ex=self._ttl_s)
            if receipt.changes or receipt.drops:
                self._list(pipe, receipt)
            if receipt.turns:
                pipe.zadd(turns, dict.fromkeys(receipt.turns, at))
                pipe.zremrangebyrank(turns, 0, -KEPT_TURNS - 1)
                pipe.expire(turns, TURNS_KEPT_S)
            waiting = PROPOSALS_PREFIX + quote(tenant, safe="")
            for proposal in proposals:
                pipe.hset(waiting, proposal.id, proposal.model_dump_json())
                pipe.expire(waiting, PROPOSAL_DAYS * 86_400)
            await pipe.execute()

    def _list(self, pipe: Any, receipt: CaptureReceipt) -> None:
        recent = RECENT_PREFIX + quote(receipt.source.tenant, safe="")
        pipe.lrem(recent, 1, receipt.id)
        pipe.lpush(recent, receipt.id)
        pipe.ltrim(recent, 0, KEPT_RECENT - 1)
        pipe.expire(recent, self._ttl_s)

    async def revise(self, tenant: str, capture_id: str, revised: Revision) -> CaptureReceipt:
        key = _receipt_key(tenant, capture_id)
        async with redis_errors(TIMEOUT_S):
            while True:
                stored = await self._redis.get(key)
                if stored is None:
                    raise NotFound(f"there is no capture {capture_id}")
                receipt = revised(CaptureReceipt.model_validate_json(stored))
                if await self._redis.eval(REPLACE, 1, key, stored, receipt.model_dump_json(), self._ttl_s):
                    return receipt

    async def read(self, tenant: str, capture_id: str) -> CaptureReceipt:
        async with redis_errors(TIMEOUT_S):
            stored = await self._redis.get(_receipt_key(tenant, capture_id))
        if stored is None:
            raise NotFound(f"there is no capture {capture_id}")
        return CaptureReceipt.model_validate_json(stored)

    async def recent(self, tenant: str, limit: int) -> list[CaptureReceipt]:
        async with redis_errors(TIMEOUT_S):
            ids = await self._redis.lrange(RECENT_PREFIX + quote(tenant, safe=""), 0, limit - 1)
            keys = [_receipt_key(tenant, raw.decode()) for raw in ids]
            stored = await self._redis.mget(keys) if keys else []
        return [CaptureReceipt.model_validate_json(raw) for raw in stored if raw is not None]

    async def proposals(self, tenant: str, now: datetime) -> list[Proposal]:
        key = PROPOSALS_PREFIX + quote(tenant, safe="")
        async with redis_errors(TIMEOUT_S):
            found = [Proposal.model_validate_json(raw) for raw in (await self._redis.hgetall(key)).values()]
            expired = [one.id for one in found if one.expires_at <= now]
            if expired:
                await self._redis.hdel(key, *expired)
        return sorted((one for one in found if one.expires_at > now), key=lambda one: (one.at, one.id))

    async def take(self, tenant: str, proposal_ids: Collection[str]) -> int:
        if not proposal_ids:
            return 0
        async with redis_errors(TIMEOUT_S):
            return int(await self._redis.hdel(PROPOSALS_PREFIX + quote(tenant, safe=""), *proposal_ids))

    async def refuse(self, tenant: str, refusals: Sequence[Refusal]) -> None:
        if not refusals:
            return
        values = {_field(one): one.model_dump_json() for one in refusals}
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(_refusals_key(tenant), mapping=values)
            pipe.delete(_state_key(tenant))
            await pipe.execute()

    async def allow(self, tenant: str, refusals: Sequence[Refusal]) -> None:
        if not refusals:
            return
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.hdel(_refusals_key(tenant), *map(_field, refusals))
            pipe.delete(_state_key(tenant))
            await pipe.execute()

    async def refusals(self, tenant: str) -> list[Refusal]:
        """Return the refusals, which are read again only after another one was added or removed."""
        async with redis_errors(TIMEOUT_S):
            state = await self._redis.get(_state_key(tenant))
            known, refusals = self._refusals.get(tenant, (None, []))
            if state is None or state != known:
                state, refusals = await self._read_refusals(tenant)
        if len(self._refusals) >= MOST_TENANTS:
            self._refusals.clear()
        self._refusals[tenant] = state, refusals
        return refusals

    async def _read_refusals(self, tenant: str) -> tuple[bytes, list[Refusal]]:
        key = _state_key(tenant)
        async with self._redis.pipeline(transaction=True) as pipe:
            pipe.set(key, secrets.token_hex(8), nx=True, ex=TURNS_KEPT_S)
            pipe.get(key).hvals(_refusals_key(tenant))
            _, state, found = await pipe.execute()
        return state, [Refusal.model_validate_json(raw) for raw in found]

    async def salt(self) -> str:
        async with redis_errors(TIMEOUT_S):
            await self._redis.setnx(SALT_KEY, secrets.token_hex(16))
            kept: bytes = await self._redis.get(SALT_KEY)
        return kept.decode()


def _receipt_key(tenant: str, capture_id: str) -> str:
    return f"{RECEIPT_PREFIX}{quote(tenant, safe='')}:{quote(capture_id, safe='')}"


def _refusals_key(tenant: str) -> str:
    return REFUSALS_PREFIX + quote(tenant, safe="")


def _state_key(tenant: str) -> str:
    return REFUSALS_STATE_PREFIX + quote(tenant, safe="")


def _field(refusal: Refusal) -> str:
    return refusal.owner + refusal.exact


def _turns_key(source: CaptureSource) -> str:
    parts = json.dumps([source.tenant, source.user])
    return TURNS_PREFIX + hashlib.sha256(parts.encode()).hexdigest()
