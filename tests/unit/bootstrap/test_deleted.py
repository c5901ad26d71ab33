"""Where deleted memories are kept: only where the process that deletes them goes on, and shared where the store is."""

from typing import Any

from worker.adapters.local.deleted import ProcessDeletedMemories
from worker.adapters.redis.deleted import RedisDeletedMemories
from worker.bootstrap.opening import open_deleted


def test_deleted_memories_are_kept_where_every_worker_of_the_store_finds_them() -> None:
    redis: Any = object()
    assert isinstance(open_deleted(redis, shared=True), RedisDeletedMemories)
    assert isinstance(open_deleted(redis, shared=False), ProcessDeletedMemories)
    assert open_deleted(None, shared=True) is open_deleted(None, shared=False) is None
