"""Who sees what."""

from collections.abc import Sequence
from datetime import datetime

from hooks.contract import Scope

from .memory import Memory, Visibility


def visible_to(
    scope: Scope,
    agent_id: str,
    shared_users: Sequence[str],
    now: datetime,
    replay: bool,
    channels: tuple[str, ...] | None = None,
) -> Visibility:
    """Return what a request may see: memories of its user, the shared users, its agent, its project and `channels`."""
    users = tuple(dict.fromkeys([*([scope.user] if scope.user else []), *shared_users]))
    return Visibility(
        users=users,
        agents=tuple(dict.fromkeys([scope.agent or agent_id, agent_id])),
        projects=(scope.project,) if scope.project else (),
        channels=channels,
        valid_at=now,
        created_until=now if replay else None,
    )


def as_everybodys(memory: Memory) -> Memory:
    """Return the memory of a shared user without owner and channel, told to everybody as before."""
    return memory.model_copy(update={"scope": memory.scope.model_copy(update={"user": None}), "channel": None})
