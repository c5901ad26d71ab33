"""What models read later, in Redis: due work, and a hash of counts per day."""

from datetime import UTC, datetime
from typing import Any

from worker.domain.capture import CaptureProgress, CaptureWork
from worker.ports.capture import Limits, Spent, Taken

from .due_work import TIMEOUT_S, DueWork
from .faults import redis_errors

WORK_KEY = "meeseeks:capture-work"
DUE_KEY = "meeseeks:capture-due"
LAST_KEY = "meeseeks:capture-last"
DAY_PREFIX = "meeseeks:capture-day:"
DAY_KEPT_S = 2 * 86_400
WORK_KEPT_S = 30 * 86_400

TAKE = """
local calls = tonumber(redis.call('HGET', KEYS[1], 'calls') or '0')
local tokens = tonumber(redis.call('HGET', KEYS[1], 'tokens') or '0')
local cost = tonumber(redis.call('HGET', KEYS[1], 'cost') or '0')
if calls >= tonumber(ARGV[1]) or tokens + tonumber(ARGV[3]) > tonumber(ARGV[2]) then return 0 end
if ARGV[5] ~= '' and cost >= tonumber(ARGV[5]) then return 0 end
redis.call('HINCRBY', KEYS[1], 'calls', 1)
redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[3])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
"""
"""KEYS: day. ARGV: most calls, most tokens, tokens, seconds, most cost or nothing."""


class RedisCaptureQueue(DueWork[CaptureWork]):
    """Implement `worker.ports.capture.CaptureQueue`."""

    def __init__(self, redis: Any, limits: Limits) -> None:
        super().__init__(redis, CaptureWork, work=WORK_KEY, due=DUE_KEY, kept_s=WORK_KEPT_S)
        self._limits = limits

    async def take_call(self, now: datetime, tokens: int) -> bool:
        most = self._limits
        limits = most.calls, most.tokens, tokens, DAY_KEPT_S, "" if most.cost is None else most.cost
        async with redis_errors(TIMEOUT_S):
            return bool(await self._redis.eval(TAKE, 1, _day(now), *limits))

    async def ended(self, taken: Taken, *, used: Spent | None, memories: int, fault: str | None = None) -> None:
        day, spent = _day(taken.at), used or Spent(0)
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.hincrby(day, "memories", memories)
            pipe.hincrby(day, "tokens", spent.tokens - taken.tokens)
            pipe.hincrbyfloat(day, "cost", spent.cost)
            pipe.hincrby(day, "calls", -1 if used is None else 0)
            pipe.expire(day, DAY_KEPT_S)
            pipe.hset(LAST_KEY, "fault", fault or "")
            pipe.hincrby(LAST_KEY, "failures", 1) if fault else pipe.hset(LAST_KEY, "failures", 0)
            pipe.expire(LAST_KEY, WORK_KEPT_S)
            await pipe.execute()

    async def read(self, now: datetime) -> CaptureProgress:
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.hgetall(_day(now)).hgetall(LAST_KEY).zcard(DUE_KEY)
            day, last, waiting = await pipe.execute()
        counts = {name: int(day.get(name.encode(), 0)) for name in ("calls", "tokens", "memories")}
        return CaptureProgress(
            most_calls=self._limits.calls,
            most_tokens=self._limits.tokens,
            most_cost=self._limits.cost,
            cost=float(day.get(b"cost", 0.0)),
            **counts,
            waiting=waiting,
            failures=int(last.get(b"failures", 0)),
            fault=last.get(b"fault", b"").decode() or None,
        )


def _day(now: datetime) -> str:
    return DAY_PREFIX + now.astimezone(UTC).date().isoformat()
