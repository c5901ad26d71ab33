"""What every adapter of Redis does about faults and time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.exceptions import RedisError

from hooks.contract import Reason
from worker.domain.errors import QueueError


@asynccontextmanager
async def in_reach(what: str, timeout_s: float) -> AsyncIterator[None]:
    """Within the block, a fault of Redis becomes a `QueueError` that begins with `what`: "the ledger is", "counts are".

    So does a block that takes longer than `timeout_s` seconds.
    """
    try:
        async with asyncio.timeout(timeout_s):
            yield
    except (RedisError, OSError) as error:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, f"{what} out of reach: {type(error).__name__}") from error
