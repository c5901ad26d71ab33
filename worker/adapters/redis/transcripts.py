"""Which transcripts of hosts are to be read, in Redis: a hash of work as JSON, and a sorted set of when it is due."""

from datetime import UTC, datetime, timedelta
from typing import Any

from worker.domain.capture import TranscriptWork

from .capture_queue import CLAIM
from .faults import redis_errors

WORK_KEY = "meeseeks:transcripts"
DUE_KEY = "meeseeks:transcripts-due"
TIMEOUT_S = 2.0
KEPT_S = 7 * 86_400

DONE = """
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if due and tonumber(due) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
"""
"""KEYS: due, work. ARGV: id, and the end of the lease, in ms; another time means that it was put again."""


class RedisTranscripts:
    """Implement `worker.ports.capture.TranscriptQueue`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def put(self, work: TranscriptWork, due: datetime, *, sooner: bool) -> None:
        await self._put(work, {work.id: _ms(due)}, lt=sooner, nx=not sooner)

    async def again(self, work: TranscriptWork, due: datetime) -> None:
        await self._put(work, {work.id: _ms(due)})

    async def _put(self, work: TranscriptWork, due: dict[str, int], **only: bool) -> None:
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(WORK_KEY, work.id, work.model_dump_json())
            pipe.zadd(DUE_KEY, due, **only)
            for key in (WORK_KEY, DUE_KEY):
                pipe.expire(key, KEPT_S)
            await pipe.execute()

    async def claim(self, now: datetime, lease: timedelta) -> TranscriptWork | None:
        async with redis_errors(TIMEOUT_S):
            found = await self._redis.eval(CLAIM, 2, DUE_KEY, WORK_KEY, _ms(now), _ms(now + lease))
        return TranscriptWork.model_validate_json(found) if found else None

    async def done(self, work: TranscriptWork, leased: datetime) -> None:
        async with redis_errors(TIMEOUT_S):
            await self._redis.eval(DONE, 2, DUE_KEY, WORK_KEY, work.id, _ms(leased))


def _ms(moment: datetime) -> int:
    return int(moment.astimezone(UTC).timestamp() * 1000)
