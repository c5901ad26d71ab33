"""Pending subagent tasks in memory, for commands that run without Redis."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from worker.hosts.profile import SubagentKind, SubagentTask
from worker.hosts.subagents import MOST_WAITING, WAIT_S

MOST_KINDS = 1_000
"""Maximum kinds; the oldest is dropped."""


@dataclass(slots=True)
class _Waiting:
    until: float
    tasks: list[SubagentTask] = field(default_factory=list)
    mixed: bool = False


class MemorySubagents:
    """Implement `worker.hosts.subagents.PendingSubagents` with the same behaviour as `RedisSubagents`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kinds: dict[SubagentKind, _Waiting] = {}

    async def announce(self, kind: SubagentKind, task: SubagentTask) -> None:
        waiting = self._of(kind) or _Waiting(0.0)
        waiting.until = self._clock() + WAIT_S
        waiting.tasks = [*waiting.tasks, task][:MOST_WAITING]
        self._kinds.pop(kind, None)
        self._kinds[kind] = waiting
        while len(self._kinds) > MOST_KINDS:
            del self._kinds[next(iter(self._kinds))]

    async def start(self, kind: SubagentKind) -> SubagentTask | None:
        waiting = self._of(kind)
        if waiting is None:
            return None
        task, alone = waiting.tasks.pop(0), not waiting.mixed
        waiting.mixed = True
        if waiting.tasks:
            return None
        del self._kinds[kind]
        return task if alone else None

    def _of(self, kind: SubagentKind) -> _Waiting | None:
        waiting = self._kinds.get(kind)
        if waiting is not None and waiting.until <= self._clock():
            del self._kinds[kind]
            return None
        return waiting
