"""Usage counts in Redis: one hash per tenant with a field per memory, changed by a script.

A field holds `injected used last_injected last_used`, times in milliseconds since 1970, 0 for never. The hash expires
`KEPT_S` seconds after its last change. One key per answer marks it as counted for `COUNTED_S` seconds.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from worker.domain.usage import Usage

from .faults import redis_errors

USAGE_PREFIX = "meeseeks:usage:"
COUNTED_PREFIX = "meeseeks:usage-counted:"
TIMEOUT_S = 2.0
KEPT_S = 180 * 86_400
COUNTED_S = 7 * 86_400

COUNT = """
if not redis.call('SET', KEYS[2], 1, 'NX', 'EX', ARGV[3]) then return 0 end
for place = 4, #ARGV, 2 do
  local injected, used, _, last_used = 0, 0, 0, '0'
  local known = redis.call('HGET', KEYS[1], ARGV[place])
  if known then injected, used, _, last_used = string.match(known, '^(%d+) (%d+) (%d+) (%d+)$') end
  injected, used, last_used = injected or 0, used or 0, last_used or '0'
  if ARGV[place + 1] == '1' then used, last_used = used + 1, ARGV[1] end
  local counts = string.format('%d %d %s %s', injected + 1, used, ARGV[1], last_used)
  redis.call('HSET', KEYS[1], ARGV[place], counts)
end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
"""KEYS: counts, mark. ARGV: now in ms, lifetimes of counts and mark in s, then pairs of memory id and 1 (used) or 0."""


class RedisUsage:
    """Implement `worker.ports.state.UsageStore`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def count(self, tenant: str, receipt_id: str, used: Mapping[str, bool], at: datetime) -> bool:
        if not used:
            return False
        pairs = [part for key, was in used.items() for part in (key, int(was))]
        async with redis_errors(TIMEOUT_S):
            now = int(at.timestamp() * 1000)
            keys = (_key(tenant), f"{COUNTED_PREFIX}{quote(tenant, safe='')}:{quote(receipt_id, safe='')}")
            return bool(await self._redis.eval(COUNT, 2, *keys, now, KEPT_S, COUNTED_S, *pairs))

    async def read(self, tenant: str, ids: Sequence[str]) -> dict[str, Usage]:
        if not ids:
            return {}
        async with redis_errors(TIMEOUT_S):
            stored = await self._redis.hmget(_key(tenant), list(ids))
        return {key: _usage(raw) for key, raw in zip(ids, stored, strict=True) if raw is not None}

    async def read_all(self, tenant: str) -> dict[str, Usage]:
        async with redis_errors(TIMEOUT_S):
            stored = await self._redis.hgetall(_key(tenant))
        return {key.decode(): _usage(raw) for key, raw in stored.items()}

    async def forget(self, tenant: str, ids: Sequence[str]) -> None:
        if ids:
            async with redis_errors(TIMEOUT_S):
                await self._redis.hdel(_key(tenant), *ids)


def _key(tenant: str) -> str:
    return USAGE_PREFIX + quote(tenant, safe="")


def _usage(raw: bytes) -> Usage:
    """Return the counts of a memory, none if its field is damaged."""
    try:
        injected, used, last_injected, last_used = map(int, raw.split())
    except ValueError:
        return Usage()
    return Usage(injected, used, _time(last_injected), _time(last_used))


def _time(milliseconds: int) -> datetime | None:
    return datetime.fromtimestamp(milliseconds / 1000, UTC) if milliseconds else None
