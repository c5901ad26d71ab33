"""Deleted memories in the memory of the process that owns the store; never on disk."""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from worker.domain.deleted import UNDO_S, DeletedMemory

MOST_KEPT = 2_000
"""Maximum number of memories; the oldest are dropped."""

Key = tuple[str, str]


class ProcessDeletedMemories:
    """Implement `worker.ports.state.DeletedMemories` for one process. What is kept is purged when its time ends."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[Key, tuple[DeletedMemory, float]] = {}
        self._latest: dict[str, tuple[str, ...]] = {}

    async def keep(self, tenant: str, deleted: Sequence[DeletedMemory]) -> None:
        end = self._clock() + UNDO_S
        for one in deleted:
            self._kept.pop((tenant, one.memory.id), None)
            self._kept[tenant, one.memory.id] = one, end
        self._latest[tenant] = tuple(one.memory.id for one in deleted)
        while len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        asyncio.get_running_loop().call_later(UNDO_S + 0.1, partial(self._purge, tenant))

    async def take(self, tenant: str, ids: Sequence[str]) -> list[DeletedMemory]:
        self._purge(tenant)
        wanted = ids or self._latest.pop(tenant, ())
        found = (self._kept.pop((tenant, key), None) for key in wanted)
        return [one for one, _ in filter(None, found)]

    async def drop(self, tenant: str, ids: Sequence[str]) -> frozenset[str]:
        return frozenset(one.memory.id for one in await self.take(tenant, ids))

    def _purge(self, tenant: str) -> None:
        now = self._clock()
        self._kept = {key: (one, end) for key, (one, end) in self._kept.items() if end > now}
        left = {key for owner, key in self._kept if owner == tenant}
        self._latest = {owner: ids for owner, ids in self._latest.items() if owner != tenant or left & set(ids)}
