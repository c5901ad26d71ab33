"""What is kept about hosts between events: names of projects, earlier turns, and the last event of a session."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

MOST_TURNS = 12
"""Turns of a session that are kept."""

EARLIER = 4
"""Earlier messages that a request gets, the latest ones."""

MOST_TURN_CHARS = 1_000
"""Characters kept of a message."""

TURNS_TTL_S = 24 * 3_600
"""How long a session's turns are kept after the last one, in seconds."""

REPEAT_S = 10.0
"""For how long an event that is sent again counts as the same event, in seconds."""


@dataclass(frozen=True, slots=True)
class SessionOf:
    """A session of a tenant."""

    tenant: str
    session_id: str


@dataclass(frozen=True, slots=True)
class SaidTurn:
    """What a person wrote in a turn. `asker` identifies the agent and scope that may see it again."""

    turn_id: str
    asker: str
    text: str


class HostState(Protocol):
    """Methods raise `QueueError`."""

    async def project_name(self, tenant: str, identity: str, names: Sequence[str]) -> str:
        """Return the name of a project, at first sight the first of `names` that no other project has."""
        ...

    async def earlier(self, session: SessionOf, turn: SaidTurn) -> list[SaidTurn]:
        """Return the kept turns of a session before `turn`, oldest first, and keep `turn` unless its text is empty."""
        ...

    async def forget_turns(self, session: SessionOf) -> None: ...

    async def repeats(self, session: SessionOf, event: str) -> bool:
        """Note an event, and return whether it is the session's last one again within `REPEAT_S`."""
        ...


def names_of(identity: str, folder: str) -> tuple[str, ...]:
    """Return possible names of a project, best first: of its folder, with its parent's, and its identity."""
    above = identity.split("/")[-2:-1]
    parent = f"{above[0].lstrip('~')}/{folder}" if above and above[0].strip("~") else ""
    return tuple(dict.fromkeys(name for name in (folder, parent, identity) if name))


def earlier_texts(turns: Sequence[SaidTurn], turn: SaidTurn) -> tuple[str, ...]:
    """Return what the same asker wrote in the latest turns before `turn`, oldest first."""
    mine = [one.text for one in turns if one.asker == turn.asker and one.turn_id != turn.turn_id]
    return tuple(mine[-EARLIER:])
