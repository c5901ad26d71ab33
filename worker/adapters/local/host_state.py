"""What is kept about hosts in memory, for services that run without Redis."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from worker.hosts.state import MOST_TURN_CHARS, MOST_TURNS, REPEAT_S, SaidTurn, SessionOf

MOST_SESSIONS = 1_000
"""Maximum sessions; the oldest is dropped."""


@dataclass(slots=True)
class _Kept:
    turns: list[SaidTurn] = field(default_factory=list)
    event: str = ""
    until: float = 0.0


class MemoryHostState:
    """Implement `worker.hosts.state.HostState` with the same behaviour as `RedisHostState`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._names: dict[tuple[str, str], str] = {}
        self._sessions: dict[SessionOf, _Kept] = {}

    async def project_name(self, tenant: str, identity: str, names: Sequence[str]) -> str:
        if (tenant, identity) not in self._names:
            taken = {name for (owner, _), name in self._names.items() if owner == tenant}
            free = [name for name in names if name not in taken]
            self._names[tenant, identity] = free[0] if free else names[-1]
        return self._names[tenant, identity]

    async def earlier(self, session: SessionOf, turn: SaidTurn) -> list[SaidTurn]:
        kept = self._of(session)
        before = list(kept.turns)
        if turn.text and all(one.turn_id != turn.turn_id for one in before):
            kept.turns = [*before, replace(turn, text=turn.text[:MOST_TURN_CHARS])][-MOST_TURNS:]
        return before

    async def forget_turns(self, session: SessionOf) -> None:
        self._of(session).turns = []

    async def repeats(self, session: SessionOf, event: str) -> bool:
        kept = self._of(session)
        same = kept.event == event and self._clock() < kept.until
        kept.event, kept.until = event, self._clock() + REPEAT_S
        return same

    def _of(self, session: SessionOf) -> _Kept:
        kept = self._sessions.pop(session, None) or _Kept()
        self._sessions[session] = kept
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return kept
