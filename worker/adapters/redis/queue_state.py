"""The state of the job queue in Redis."""

import asyncio
from typing import Any

from redis.exceptions import RedisError

from hooks.protocol import wire
from worker.operations.client import QueueState

LIMIT_S = 1.0
"""Timeout in seconds."""


async def look_at_queue(redis: Any) -> QueueState | None:
    """Return the number of waiting jobs and whether a worker is alive, `None` if Redis does not answer."""
    try:
        async with asyncio.timeout(LIMIT_S), redis.pipeline(transaction=False) as pipe:
            pipe.llen(wire.WAKE)
            pipe.exists(wire.ALIVE)
            waiting, alive = await pipe.execute()
    except (RedisError, OSError):
        return None
    return QueueState(waiting, bool(alive))
