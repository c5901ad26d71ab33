"""What a briefing has room for, and which turns get one."""

from datetime import UTC, datetime

import pytest

from hooks.contract import InjectionRequest
from worker.domain.deadline import Deadline
from worker.domain.ledger import LedgerEntry, LedgerView
from worker.domain.memory import Candidate, Memory, Recalled
from worker.domain.timings import Stages
from worker.injection.briefing import MOST_WORDS, opens_session, with_briefing
from worker.injection.turn import Turn, read_turn
from worker.settings.injection import InjectionConfig

NOW = datetime(2026, 3, 20, tzinfo=UTC)


def turn(*, briefing: bool = True, source: str = "user") -> Turn:
    request = InjectionRequest(session_id="s", message="hello", source=source)
    config = InjectionConfig(briefing=briefing, max_item_chars=10_000)
    return read_turn(request, config, NOW, Deadline.after(5), "r", Stages())


def candidate(key: str, content: str) -> Candidate:
    return Candidate(Memory(id=key, content=content), None, None, 0.0, 0.5)


def test_what_is_too_long_is_left_out_and_what_was_found_follows_once() -> None:
    leading = [candidate("a", "word " * 300), candidate("b", "word " * 300), candidate("c", "word " * 100)]
    recalled = Recalled("q", (candidate("c", "word"), candidate("d", "word")))
    found = with_briefing(recalled, leading, turn())
    assert [one.memory.id for one in found.candidates] == ["a", "c", "d"]


def test_a_text_without_spaces_counts_by_its_length() -> None:
    long = candidate("a", "語" * (12 * MOST_WORDS + 1))
    assert with_briefing(Recalled("q"), [long, candidate("b", "語")], turn()).candidates[0].memory.id == "b"


@pytest.mark.parametrize(
    ("view", "given", "opens"),
    [
        (LedgerView(turn=1), turn(), True),
        (LedgerView(turn=1), turn(briefing=False), False),
        (LedgerView(turn=1), turn(source="subagent"), False),
        (LedgerView(turn=2), turn(), False),
        (LedgerView(turn=0), turn(), False),
        (LedgerView(turn=1, shown={"m": LedgerEntry(1, 1, "b")}), turn(), False),
    ],
)
def test_the_first_turn_of_a_session_gets_it(view: LedgerView, given: Turn, opens: bool) -> None:
    assert opens_session(given, view) is opens
