"""A look at the queue in Redis, for those who watch it."""

from typing import Any

from redis.exceptions import RedisError

from hooks import wire

from ..backends import QueueState


async def look_at_queue(redis: Any) -> QueueState | None:
    """How many jobs wait and whether a worker is alive; `None` while Redis does not answer."""
    try:
        async with redis.pipeline(transaction=False) as pipe:
            pipe.llen(wire.WAKE)
            pipe.exists(wire.ALIVE)
            waiting, alive = await pipe.execute()
    except (RedisError, OSError):
        return None
    return QueueState(waiting, bool(alive))
