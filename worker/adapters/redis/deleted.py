"""Deleted memories in Redis, shared by workers, for as long as a deletion can be undone.

- `meeseeks:deleted:<hash of tenant and id>`: a deleted memory as JSON
- `meeseeks:deleted-latest:<hash of tenant>`: the ids of the tenant's latest deletion as JSON
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from worker.domain.deleted import UNDO_S, DeletedMemory

from .faults import redis_errors

PREFIX = "meeseeks:deleted:"
LATEST_PREFIX = "meeseeks:deleted-latest:"
TIMEOUT_S = 2.0


class RedisDeletedMemories:
    """Implement `worker.ports.state.DeletedMemories`. Methods raise `QueueError` within `TIMEOUT_S` seconds."""

    def __init__(self, redis: Any) -> None:
        self._redis = redis

    async def keep(self, tenant: str, deleted: Sequence[DeletedMemory]) -> None:
        ids = json.dumps([one.memory.id for one in deleted])
        async with redis_errors(TIMEOUT_S), self._redis.pipeline(transaction=True) as pipe:
            for one in deleted:
                pipe.set(_key(PREFIX, tenant, one.memory.id), one.model_dump_json(), ex=UNDO_S)
            pipe.set(_key(LATEST_PREFIX, tenant), ids, ex=UNDO_S)
            await pipe.execute()

    async def take(self, tenant: str, ids: Sequence[str]) -> list[DeletedMemory]:
        async with redis_errors(TIMEOUT_S):
            wanted = ids or json.loads(await self._redis.getdel(_key(LATEST_PREFIX, tenant)) or "[]")
            if not wanted:
                return []
            async with self._redis.pipeline(transaction=True) as pipe:
                for key in wanted:
                    pipe.getdel(_key(PREFIX, tenant, key))
                found = await pipe.execute()
        return [DeletedMemory.model_validate_json(raw) for raw in found if raw is not None]

    async def drop(self, tenant: str, ids: Sequence[str]) -> frozenset[str]:
        return frozenset(one.memory.id for one in await self.take(tenant, ids))


def _key(prefix: str, *parts: str) -> str:
    return prefix + hashlib.sha256(json.dumps(parts).encode()).hexdigest()
