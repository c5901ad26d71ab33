"""Work that waits in Redis until it is due: a hash of it as JSON by id, and a sorted set of when each is due."""

from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, Self, TypeVar

from .faults import redis_errors

TIMEOUT_S = 2.0

CLAIM = """
local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', 0, 1)
if #ids == 0 then return false end
local work = redis.call('HGET', KEYS[2], ids[1])
if not work then redis.call('ZREM', KEYS[1], ids[1]) return false end
redis.call('ZADD', KEYS[1], ARGV[2], ids[1])
return work
"""
"""KEYS: due, work. ARGV: now and the end of the lease, in ms."""

DONE = """
local due = redis.call('ZSCORE', KEYS[1], ARGV[1])
if due and tonumber(due) ~= tonumber(ARGV[2]) then return 0 end
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('HDEL', KEYS[2], ARGV[1])
return 1
"""
"""KEYS: due, work. ARGV: id, and the end of the lease, in ms; another time means that it was put again."""


class Work(Protocol):
    """A pydantic model with an id."""

    @property
    def id(self) -> str: ...

    def model_dump_json(self) -> str: ...

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray) -> Self: ...


WorkT = TypeVar("WorkT", bound=Work)


class DueWork(Generic[WorkT]):
    """Implement `worker.ports.capture.DueQueue` for a type of work, under two keys that expire after `kept_s` seconds.

    Methods raise `QueueError` within `TIMEOUT_S` seconds.
    """

    def __init__(self, redis: Any, model: type[WorkT], *, work: str, due: str, kept_s: int) -> None:
        self._redis = redis
        self._model = model
        self._work = work
        self._due = due
        self._kept_s = kept_s

    async def put(self, work: WorkT, due: datetime) -> None:
        await self._put(work, due, earlier_only=False)

    async def note(self, work: WorkT, due: datetime) -> None:
        await self._put(work, due, earlier_only=True)

    async def _put(self, work: WorkT, due: datetime, *, earlier_only: bool) -> None:
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            pipe.hset(self._work, work.id, work.model_dump_json())
            pipe.zadd(self._due, {work.id: _ms(due)}, lt=earlier_only)
            for key in (self._work, self._due):
                pipe.expire(key, self._kept_s)
            await pipe.execute()

    async def claim(self, now: datetime, lease: timedelta) -> WorkT | None:
        async with redis_errors(TIMEOUT_S):
            found = await self._redis.eval(CLAIM, 2, self._due, self._work, _ms(now), _ms(now + lease))
        return self._model.model_validate_json(found) if found else None

    async def done(self, work: WorkT, leased: datetime) -> None:
        async with redis_errors(TIMEOUT_S):
            await self._redis.eval(DONE, 2, self._due, self._work, work.id, _ms(leased))


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
