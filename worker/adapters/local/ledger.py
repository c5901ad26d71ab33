"""A ledger in memory, for commands that run without Redis."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from worker.domain.ledger import UNSEEN, LedgerEntry, LedgerKey, LedgerView, turn_id_of


@dataclass(slots=True)
class _Session:
    turn: int = 0
    turns: dict[str, int] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    offered: dict[str, dict[str, LedgerEntry]] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    shown: dict[str, LedgerEntry] = field(default_factory=dict)
    pending: int | None = None
    compacted: int | None = None

    def begin(self, turn_key: str) -> int:
        turn_id = turn_id_of(turn_key)
        if turn_id not in self.turns:
            self.turn += 1
            self.turns[turn_id] = self.turn
        return self.turns[turn_id]

    def taken(self, wanted: Mapping[str, LedgerEntry], seen: int) -> frozenset[str]:
        """Return the wanted memories that were offered after the first `seen` offers, and not withdrawn.

        If the turn has seen nothing, these are also all that were shown.
        """
        later = [self.offered[turn_key] for turn_key, place in self.order.items() if place > max(seen, 0)]
        later += [self.shown] if seen == UNSEEN else []
        return frozenset(
            name
            for offered in later
            for name, entry in offered.items()
            if name in wanted and entry.version >= wanted[name].version
        )


class MemoryLedger:
    """Implement `worker.ports.state.Ledger` with the same behaviour as `RedisLedger`."""

    def __init__(self) -> None:
        self._sessions: dict[LedgerKey, _Session] = {}
        self._blocks: dict[tuple[str, str], dict[str, LedgerEntry]] = {}

    async def view(self, key: LedgerKey, turn_key: str, *, depth: int) -> LedgerView:
        session = self._sessions.setdefault(key, _Session())
        turn = session.begin(turn_key)
        for memory_id, entry in list(session.shown.items()):
            if not entry.lasting and entry.turn <= session.turn - depth:
                del session.shown[memory_id]
        answer, offers = session.answers.get(turn_key), len(session.order)
        return LedgerView(turn, dict(session.shown), answer, session.pending, session.compacted, offers)

    async def peek(self, key: LedgerKey) -> LedgerView:
        session = self._sessions.get(key, _Session())
        return LedgerView(session.turn, dict(session.shown), None, session.pending, session.compacted)

    async def offer(
        self, key: LedgerKey, turn_key: str, answer: str, shown: dict[str, LedgerEntry], *, seen: int | None = None
    ) -> frozenset[str]:
        session = self._sessions.setdefault(key, _Session())
        turn = session.begin(turn_key)
        if turn_key not in session.answers:
            taken = frozenset() if seen is None else session.taken(shown, seen)
            if taken:
                return taken
            session.order[turn_key] = len(session.order) + 1
            shown = {name: entry if entry.turn else replace(entry, turn=turn) for name, entry in shown.items()}
            session.answers[turn_key] = answer
            session.offered[turn_key] = shown
            for memory_id, entry in shown.items():
                self._blocks.setdefault((key.tenant, entry.block_id), {})[memory_id] = entry
        return frozenset()

    async def commit(self, key: LedgerKey, turn_key: str) -> bool:
        session = self._sessions.get(key)
        if session is None or turn_key not in session.offered:
            return False
        session.shown.update(session.offered[turn_key])
        return True

    async def agents(self, tenant: str, session_id: str) -> tuple[str, ...]:
        mine = (key for key in self._sessions if (key.tenant, key.session_id) == (tenant, session_id))
        return tuple(sorted(key.agent_id for key in mine))

    async def reset(self, key: LedgerKey) -> int:
        session = self._sessions.pop(key, None)
        return len(session.shown) if session else 0

    async def drop(self, key: LedgerKey, entries: Mapping[str, LedgerEntry]) -> int:
        session = self._sessions.get(key, _Session())
        if session.pending is not None:
            session.compacted = session.turn
        session.pending = None
        gone = [memory_id for memory_id, entry in entries.items() if session.shown.get(memory_id) == entry]
        for memory_id in gone:
            del session.shown[memory_id]
        return len(gone)

    async def begin_compaction(self, key: LedgerKey) -> None:
        if key in self._sessions:
            self._sessions[key].pending = self._sessions[key].turn

    async def adopt(self, key: LedgerKey, turn: int, entries: Mapping[str, LedgerEntry]) -> int:
        session = self._sessions.setdefault(key, _Session())
        session.turn = max(session.turn, turn)
        new = {memory_id: entry for memory_id, entry in entries.items() if memory_id not in session.shown}
        session.shown.update(new)
        return len(new)

    async def withdraw(self, key: LedgerKey, turn_id: str) -> int:
        session = self._sessions.get(key, _Session())
        offers = [shown for turn_key, shown in session.offered.items() if turn_id_of(turn_key) == turn_id]
        gone = [name for shown in offers for name, entry in shown.items() if session.shown.get(name) == entry]
        for turn_key in session.order:
            if turn_id_of(turn_key) == turn_id:
                session.order[turn_key] = 0
        for memory_id in gone:
            del session.shown[memory_id]
        return len(gone)

    async def blocks(self, tenant: str, block_ids: Sequence[str]) -> dict[str, LedgerEntry]:
        found: dict[str, LedgerEntry] = {}
        for block_id in block_ids:
            found.update(self._blocks.get((tenant, block_id), {}))
        return found
