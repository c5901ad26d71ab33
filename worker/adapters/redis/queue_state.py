"""A look at the queue in Redis, for those who watch it."""

import asyncio
from typing import Any

from redis.exceptions import RedisError

from hooks import wire
from worker.operations.client import QueueState

LIMIT_S = 1.0
"""Seconds that a look may take."""


async def look_at_queue(redis: Any) -> QueueState | None:
    """How many jobs wait and whether a worker is alive; `None` while Redis does not answer."""
    try:
        async with asyncio.timeout(LIMIT_S), redis.pipeline(transaction=False) as pipe:
            pipe.llen(wire.WAKE)
            pipe.exists(wire.ALIVE)
            waiting, alive = await pipe.execute()
    except (RedisError, OSError):
        return None
    return QueueState(waiting, bool(alive))
