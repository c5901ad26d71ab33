"""Runs of upkeep in Redis, shared by workers.

- `meeseeks:upkeep:<tenant>:<id>`: a run as JSON
- `meeseeks:upkeep-last:<tenant>`: the id of the latest run
- `meeseeks:upkeep-open`: the keys of runs that have not ended
- `meeseeks:upkeep-night`: the day of the last nightly run
- `meeseeks:upkeep-lead`: the worker that runs; it expires if that worker ends
"""

from datetime import date, timedelta
from typing import Any
from urllib.parse import quote

from worker.domain.errors import NotFound
from worker.domain.upkeep import RunState, UpkeepRun

from .cue_log import LEAD
from .faults import redis_errors

RUN_PREFIX = "meeseeks:upkeep:"
LAST_PREFIX = "meeseeks:upkeep-last:"
OPEN_KEY = "meeseeks:upkeep-open"
NIGHT_KEY = "meeseeks:upkeep-night"
LEAD_KEY = "meeseeks:upkeep-lead"
TIMEOUT_S = 5.0
KEPT_S = 30 * 86_400

RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""
"""KEYS: lead. ARGV: who had it."""


class RedisUpkeepRuns:
    """Implement `worker.ports.upkeep.UpkeepRuns`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def lead(self, worker: str, lease: timedelta) -> bool:
        async with redis_errors(TIMEOUT_S):
            return bool(await self._redis.eval(LEAD, 1, LEAD_KEY, worker, int(lease.total_seconds())))

    async def release(self, worker: str) -> None:
        async with redis_errors(TIMEOUT_S):
            await self._redis.eval(RELEASE, 1, LEAD_KEY, worker)

    async def write(self, run: UpkeepRun) -> None:
        key = _key(run.tenant, run.id)
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.set(key, run.model_dump_json(), ex=KEPT_S)
            if run.state is not RunState.UNDONE:
                pipe.set(LAST_PREFIX + quote(run.tenant, safe=""), run.id, ex=KEPT_S)
            pipe.sadd(OPEN_KEY, key) if run.state is RunState.RUNNING else pipe.srem(OPEN_KEY, key)
            pipe.expire(OPEN_KEY, KEPT_S)
            await pipe.execute()

    async def read(self, tenant: str, run_id: str | None = None) -> UpkeepRun:
        async with redis_errors(TIMEOUT_S):
            if run_id is None:
                last = await self._redis.get(LAST_PREFIX + quote(tenant, safe=""))
                run_id = last.decode() if last else None
            stored = await self._redis.get(_key(tenant, run_id)) if run_id else None
        if stored is None:
            raise NotFound(f"there is no run {run_id} of upkeep" if run_id else "there was no upkeep yet")
        return UpkeepRun.model_validate_json(stored)

    async def unfinished(self) -> list[UpkeepRun]:
        async with redis_errors(TIMEOUT_S):
            keys = sorted(await self._redis.smembers(OPEN_KEY))
            stored = await self._redis.mget(keys) if keys else []
            gone = [key for key, raw in zip(keys, stored, strict=True) if raw is None]
            if gone:
                await self._redis.srem(OPEN_KEY, *gone)
        return [UpkeepRun.model_validate_json(raw) for raw in stored if raw is not None]

    async def night(self) -> date | None:
        async with redis_errors(TIMEOUT_S):
            stored = await self._redis.get(NIGHT_KEY)
        return date.fromisoformat(stored.decode()) if stored else None

    async def note_night(self, day: date) -> None:
        async with redis_errors(TIMEOUT_S):
            await self._redis.set(NIGHT_KEY, day.isoformat(), ex=KEPT_S)


def _key(tenant: str, run_id: str) -> str:
    return f"{RUN_PREFIX}{quote(tenant, safe='')}:{quote(run_id, safe='')}"
