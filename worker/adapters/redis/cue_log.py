"""The progress of writing cues in Redis, which all workers share: a hash of the last run, and one per day.

Whoever holds the lead writes cues; it expires if its holder ends.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from worker.domain.cue_progress import CueProgress

from .faults import redis_errors

LAST_KEY = "meeseeks:cues:last"
LEAD_KEY = "meeseeks:cues:lead"
DAY_PREFIX = "meeseeks:cues:day:"
TIMEOUT_S = 2.0
DAY_KEPT_S = 2 * 86_400
LAST_KEPT_S = 90 * 86_400

LEAD = """
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""
"""KEYS: lead. ARGV: who asks, seconds."""

TAKE = """
if tonumber(redis.call('HGET', KEYS[1], 'calls') or '0') >= tonumber(ARGV[1]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'calls', 1)
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1
"""
"""KEYS: day. ARGV: most calls, seconds."""


class RedisCueLog:
    """Implement `worker.ports.state.CueLog`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any, most_calls: int) -> None:
        self._redis = redis
        self._most = most_calls

    async def lead(self, worker: str, lease: timedelta) -> bool:
        async with redis_errors(TIMEOUT_S):
            return bool(await self._redis.eval(LEAD, 1, LEAD_KEY, worker, int(lease.total_seconds())))

    async def take_call(self, now: datetime) -> bool:
        async with redis_errors(TIMEOUT_S):
            return bool(await self._redis.eval(TAKE, 1, _day(now), self._most, DAY_KEPT_S))

    async def wrote(self, now: datetime, *, memories: int, tokens: int) -> None:
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.hincrby(_day(now), "memories", memories).hincrby(_day(now), "tokens", tokens)
            pipe.expire(_day(now), DAY_KEPT_S)
            await pipe.execute()

    async def ended(self, now: datetime, *, without_cues: int | None, fault: str | None) -> int:
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            fields: dict[str, str | int] = {"at": int(now.timestamp() * 1000), "fault": fault or ""}
            pipe.hset(LAST_KEY, mapping=fields if without_cues is None else {**fields, "without": without_cues})
            pipe.hincrby(LAST_KEY, "failures", 1) if fault else pipe.hset(LAST_KEY, "failures", 0)
            pipe.expire(LAST_KEY, LAST_KEPT_S)
            done = await pipe.execute()
        return int(done[1]) if fault else 0

    async def read(self, now: datetime) -> CueProgress:
        async with redis_errors(TIMEOUT_S):
            last = {key.decode(): value.decode() for key, value in (await self._redis.hgetall(LAST_KEY)).items()}
            day = {key.decode(): int(value) for key, value in (await self._redis.hgetall(_day(now))).items()}
        return CueProgress(
            most_calls=self._most,
            **{name: day.get(name, 0) for name in ("calls", "tokens", "memories")},
            without_cues=int(last["without"]) if "without" in last else None,
            last_run=datetime.fromtimestamp(int(last["at"]) / 1000, UTC) if "at" in last else None,
            failures=int(last.get("failures", 0)),
            fault=last.get("fault") or None,
        )


def _day(now: datetime) -> str:
    return DAY_PREFIX + now.astimezone(UTC).date().isoformat()
