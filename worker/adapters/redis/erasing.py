"""Deleted memories whose texts are still to be erased from receipts, in Redis, shared by workers.

- `meeseeks:erasing`: tenant and id as JSON, in a sorted set by when they are due, in ms
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from worker.domain.deleted import Erasure

from .faults import redis_errors

KEY = "meeseeks:erasing"
TIMEOUT_S = 2.0

CLAIM = """
local found = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[3])
for place = 1, #found, 2 do redis.call('ZADD', KEYS[1], ARGV[2], found[place]) end
return found
"""
"""KEYS: the sorted set. ARGV: now and the end of the lease, in ms, and the maximum number. Return members and times."""

DONE = """
for place = 2, #ARGV do
  if redis.call('ZSCORE', KEYS[1], ARGV[place]) == ARGV[1] then redis.call('ZREM', KEYS[1], ARGV[place]) end
end
"""
"""KEYS: the sorted set. ARGV: the end of the lease, in ms, and members; another time means that it was put again."""


class RedisErasures:
    """Implement `worker.ports.state.ErasureQueue`. Methods raise `QueueError` within `TIMEOUT_S` seconds.

    What waits is kept for `ttl_s` seconds, as receipts are.
    """

    def __init__(self, redis: Any, ttl_s: int) -> None:
        self._redis = redis
        self._ttl_s = ttl_s

    async def put(self, tenant: str, ids: Sequence[str], due: datetime) -> None:
        if ids:
            async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
                pipe.zadd(KEY, {_member(tenant, one): _ms(due) for one in ids})
                pipe.expire(KEY, self._ttl_s)
                await pipe.execute()

    async def cancel(self, tenant: str, ids: Sequence[str]) -> None:
        if ids:
            async with redis_errors(TIMEOUT_S):
                await self._redis.zrem(KEY, *(_member(tenant, one) for one in ids))

    async def claim(self, now: datetime, lease: timedelta, *, most: int) -> list[Erasure]:
        async with redis_errors(TIMEOUT_S):
            found = await self._redis.eval(CLAIM, 1, KEY, _ms(now), _ms(now + lease), most)
        return [_erasure(member, due) for member, due in zip(found[::2], found[1::2], strict=True)]

    async def done(self, erasures: Sequence[Erasure], leased: datetime) -> None:
        if erasures:
            async with redis_errors(TIMEOUT_S):
                await self._redis.eval(DONE, 1, KEY, _ms(leased), *(_member(one.tenant, one.id) for one in erasures))


def _member(tenant: str, memory_id: str) -> str:
    return json.dumps([tenant, memory_id])


def _erasure(member: bytes, due: bytes) -> Erasure:
    tenant, memory_id = json.loads(member)
    return Erasure(tenant, memory_id, datetime.fromtimestamp(int(due) / 1000, UTC))


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
