"""Tasks of subagents that are about to start, kept until they do.

Hosts say what a subagent is asked before it exists, and when it starts only which kind it is. A task can be told to
belong to it only where no other subagent of its kind waits: where several do, all of them start without memory, which
is better than with that of another. So a kind with several waiting stays mixed until as many have started.
"""

from typing import Protocol

from .profile import SubagentKind, SubagentTask

WAIT_S = 60.0
"""Seconds that a task is kept; a subagent that was not allowed to start leaves it behind."""

MOST_WAITING = 256
"""Tasks of one kind that are kept; what comes beyond is dropped."""


class PendingSubagents(Protocol):
    """Every method raises `QueueError` and nothing else of its own."""

    async def announce(self, kind: SubagentKind, task: SubagentTask) -> None:
        """Keep a task for `WAIT_S` seconds."""
        ...

    async def start(self, kind: SubagentKind) -> SubagentTask | None:
        """One of this kind starts: its task, where exactly one waits and the kind is not mixed."""
        ...
