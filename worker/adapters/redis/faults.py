"""Errors and timeouts of the Redis adapters."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from hooks.contract import Reason
from hooks.queue import explain
from worker.domain.errors import QueueError


@asynccontextmanager
async def redis_errors(timeout_s: float) -> AsyncIterator[None]:
    """Raise Redis errors and timeouts (in seconds) within the block as `QueueError`."""
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (RedisError, OSError) as error:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, explain(error)) from error
