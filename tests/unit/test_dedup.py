"""What counts as shown, and what says the same twice."""

from hooks.contract import Retention
from worker.dedup import deduplicate, still_shown
from worker.models import Candidate, LedgerEntry, LedgerView, Memory, Verdict


def candidate(key: str, content: str = "", version: int = 1) -> Candidate:
    return Candidate(Memory(id=key, content=content or key, version=version), 0.5, None, 0.5, 0.5)


def test_shown_version_is_dropped_and_an_edit_may_come_again() -> None:
    shown = {"m1": LedgerEntry(1, 1, "b1"), "m2": LedgerEntry(1, 1, "b1")}
    kept, dropped = deduplicate([candidate("m1"), candidate("m2", version=2)], shown)
    assert [c.memory.id for c in kept] == ["m2"]
    assert [entry.verdict for entry in dropped] == [Verdict.ALREADY_SHOWN]


def test_same_id_or_same_words_come_once() -> None:
    kept, dropped = deduplicate([candidate("m1", "Oat  milk"), candidate("m1"), candidate("m3", "oat milk")], {})
    assert [c.memory.id for c in kept] == ["m1"]
    assert {entry.verdict for entry in dropped} == {Verdict.DUPLICATE}


VIEW = LedgerView(turn=11, shown={"old": LedgerEntry(1, 1, "b1"), "new": LedgerEntry(1, 10, "b2")})


def test_entries_leave_the_window_by_turns() -> None:
    shown = still_shown(VIEW, retention=Retention.HISTORY, visible_blocks=None, depth=10)
    assert set(shown) == {"new"}


def test_callers_view_of_its_blocks_corrects_the_ledger() -> None:
    assert still_shown(VIEW, retention=Retention.HISTORY, visible_blocks=(), depth=100) == {}
    shown = still_shown(VIEW, retention=Retention.HISTORY, visible_blocks=("b1",), depth=100)
    assert set(shown) == {"old"}


def test_ephemeral_blocks_are_gone_after_their_turn() -> None:
    assert still_shown(VIEW, retention=Retention.EPHEMERAL, visible_blocks=None, depth=100) == {}
