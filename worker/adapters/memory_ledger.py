"""A ledger in this process's memory, for commands that run without Redis: it knows one session at most."""

from dataclasses import dataclass, field

from worker.models import LedgerEntry, LedgerKey, LedgerView


@dataclass(slots=True)
class _Session:
    turns: dict[str, int] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    offered: dict[str, dict[str, LedgerEntry]] = field(default_factory=dict)
    shown: dict[str, LedgerEntry] = field(default_factory=dict)


class MemoryLedger:
    """Same behaviour as the ledger in Redis, gone with the process."""

    def __init__(self) -> None:
        self._sessions: dict[LedgerKey, _Session] = {}

    async def view(self, key: LedgerKey, turn_id: str) -> LedgerView:
        session = self._sessions.setdefault(key, _Session())
        turn = session.turns.setdefault(turn_id, len(session.turns) + 1)
        return LedgerView(turn, dict(session.shown), session.answers.get(turn_id))

    async def offer(self, key: LedgerKey, turn_id: str, answer: str, shown: dict[str, LedgerEntry]) -> None:
        session = self._sessions.setdefault(key, _Session())
        session.answers[turn_id] = answer
        session.offered[turn_id] = shown

    async def commit(self, key: LedgerKey, turn_id: str) -> bool:
        session = self._sessions.get(key)
        if session is None or turn_id not in session.offered:
            return False
        session.shown.update(session.offered[turn_id])
        return True
