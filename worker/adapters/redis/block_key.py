"""The secret with which workers mark blocks, shared by all workers on one Redis."""

from typing import Any

from hooks.protocol.wire import BLOCK_KEY

from .faults import redis_errors

TIMEOUT_S = 1.0


async def shared_block_key(redis: Any, proposed: str) -> str:
    """Return the secret that is stored, after storing `proposed` if there is none. Raise `QueueError`."""
    async with redis_errors(TIMEOUT_S):
        await redis.set(BLOCK_KEY, proposed, nx=True)
        stored: bytes | None = await redis.get(BLOCK_KEY)
    return stored.decode() if stored else proposed
