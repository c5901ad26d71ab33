"""Tasks of subagents that are about to start.

Hosts announce the task before a subagent exists, and only name its kind when it starts. If several subagents of one
kind are waiting, their tasks cannot be told apart, so all of them start without memories. The kind is then ambiguous
until as many subagents have started.
"""

from typing import Protocol

from .profile import SubagentKind, SubagentTask

WAIT_S = 60.0
"""How long a task is kept in seconds, in case the subagent never starts."""

MOST_WAITING = 256
"""Maximum number of waiting tasks of one kind; further ones are dropped."""


class PendingSubagents(Protocol):
    """Storage for announced tasks; methods raise `QueueError`."""

    async def announce(self, kind: SubagentKind, task: SubagentTask) -> None:
        """Keep a task for `WAIT_S` seconds."""
        ...

    async def start(self, kind: SubagentKind) -> SubagentTask | None:
        """Return the task of a starting subagent if exactly one is waiting and the kind is not ambiguous."""
        ...
