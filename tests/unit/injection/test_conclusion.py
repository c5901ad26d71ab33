"""From a selection to a block and its receipt, which must agree."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from hooks.contract import BlockFormat, Engine, InjectionRequest, ItemSource, Outcome, Reason, RenderOptions, Retention
from tests.support.vectors import row
from worker.domain.deadline import Deadline
from worker.domain.ledger import LedgerEntry, LedgerView
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Memory, MemoryType, RecallQuery, Selection
from worker.domain.timings import Stages
from worker.injection.conclusion import conclude_selection, result_of, shown_by
from worker.injection.receipt import receipt_of
from worker.injection.turn import Turn
from worker.settings.injection import InjectionConfig
from worker.text.tokens import estimate_tokens

NOW = datetime(2026, 3, 1, tzinfo=UTC)
GOALS = [
    Candidate(
        Memory(id=f"g{n}", type=MemoryType.GOAL, content=f"Goal {n}: " + "we water all the beds every day " * 19),
        None,
        None,
        0.0,
        0.0,
        source=ItemSource.PINNED,
    )
    for n in range(12)
]
PADLOCK = Candidate(Memory(id="m1", content="Allotment gate padlock is 3380"), 0.7, 9.0, 0.6, 0.6, row(0.6, 0.8))


def turn(style: BlockFormat = BlockFormat.XML, retention: Retention = Retention.HISTORY, **config: object) -> Turn:
    request = InjectionRequest.model_validate(
        {"session_id": "s", "message": "padlock?", "render": {"format": style}, "retention": retention}
    )
    settings = InjectionConfig.model_validate(config)
    return Turn(request, settings, RecallQuery("padlock?"), NOW, Deadline.after(3), Stages(), "receipt")


@pytest.mark.parametrize("style", list(BlockFormat))
def test_b37_pinned_goals_leave_room_and_the_receipt_matches_the_block(style: BlockFormat) -> None:
    now = turn(style, max_total=25, max_tokens=800, max_item_chars=700)
    conclusion = conclude_selection(now, Selection((*GOALS, PADLOCK), Engine.DETERMINISTIC), (), None)
    result = result_of(now, conclusion)
    receipt = receipt_of(now, conclusion, result)
    text = result.memory_context or ""
    assert "padlock is 3380" in text
    assert estimate_tokens(text) <= 800
    in_text = sorted(
        (c.memory.id for c in (*GOALS, PADLOCK) if c.memory.content.strip() in text),
        key=lambda name: text.index(next(c.memory.content.strip() for c in (*GOALS, PADLOCK) if c.memory.id == name)),
    )
    assert list(receipt.chosen) == [item.id for item in result.items] == in_text
    assert len(in_text) > 2
    verdicts = {entry.id: entry.verdict for entry in receipt.considered}
    assert {name for name, verdict in verdicts.items() if verdict is CandidateVerdict.CHOSEN} == set(in_text)
    assert {verdict for name, verdict in verdicts.items() if name not in in_text} == {CandidateVerdict.OVER_TOKENS}
    assert {entry.id: entry.source for entry in receipt.considered}["g0"] is ItemSource.PINNED


def test_found_memories_come_first_except_in_sections() -> None:
    chosen = Selection((GOALS[0], PADLOCK), Engine.LLM)
    plain = conclude_selection(turn(), chosen, (), None)
    sections = conclude_selection(turn(BlockFormat.SECTIONS), chosen, (), None)
    assert [line.memory.id for line in plain.lines] == ["m1", "g0"]
    assert [line.memory.id for line in sections.lines] == ["g0", "m1"]


def test_p5_sections_separate_pinned_and_relevant() -> None:
    now = turn(BlockFormat.SECTIONS)
    text = result_of(now, conclude_selection(now, Selection((GOALS[0], PADLOCK), Engine.LLM), (), None)).text
    assert (text or "").startswith("[Pinned context]\n[Goal] Goal 0")
    assert "\n\n[Relevant to this message]\n[Fact] Allotment" in (text or "")


def test_p9_the_receipt_has_source_and_verdict_of_each_candidate() -> None:
    now = turn(max_total=1)
    shown = Candidate(Memory(id="m2", content="The padlock is on the gate"), 0.5, None, 0.4, 0.4)
    dropped = [Dropped(shown, CandidateVerdict.ALREADY_SHOWN, "m0")]
    conclusion = conclude_selection(now, Selection((GOALS[0], PADLOCK), Engine.LLM), dropped, None)
    receipt = receipt_of(now, conclusion, result_of(now, conclusion))
    told = {entry.id: (entry.source, entry.score, entry.verdict, entry.duplicate_of) for entry in receipt.considered}
    assert told == {
        "m1": (ItemSource.CONTEXTUAL, 0.6, CandidateVerdict.OVER_ITEMS, None),
        "g0": (ItemSource.PINNED, 0.0, CandidateVerdict.CHOSEN, None),
        "m2": (ItemSource.CONTEXTUAL, 0.4, CandidateVerdict.ALREADY_SHOWN, "m0"),
    }


def test_the_models_order_is_kept() -> None:
    facts = [Candidate(Memory(id=f"f{n}", content=f"fact {n}"), 0.5, None, n / 10, n / 10) for n in range(4)]
    order = [facts[2], facts[0], facts[3]]
    conclusion = conclude_selection(turn(), Selection(tuple(order), Engine.LLM), (), None)
    assert [line.memory.id for line in conclusion.lines] == ["f2", "f0", "f3"]


def test_a_memory_that_never_fits_is_over_budget() -> None:
    now = turn(max_tokens=50)
    conclusion = conclude_selection(now, Selection((GOALS[0],), Engine.LLM), (), None)
    assert (conclusion.outcome, conclusion.reason) == (Outcome.NONE_RELEVANT, Reason.OVER_BUDGET)


@pytest.mark.parametrize(
    ("retention", "count", "lasting"),
    [(Retention.HISTORY, 1, False), (Retention.SYSTEM, 1, True), (Retention.EPHEMERAL, 0, False)],
)
def test_shown_entries_depend_on_retention(retention: Retention, count: int, lasting: bool) -> None:
    now = turn(retention=retention)
    conclusion = conclude_selection(now, Selection((PADLOCK,), Engine.LLM), (), None)
    shown = shown_by(now, conclusion, LedgerView(turn=4), "block")
    assert len(shown) == count
    for entry in shown.values():
        assert (entry.turn, entry.block_id, entry.lasting) == (4, "block", lasting)
        assert entry.text == "Allotment gate padlock is 3380"
        assert entry.vector == bytes([95, 127])


def test_parts_of_a_memory_that_were_shown_before_stay_known_until_it_is_edited() -> None:
    now, entry = turn(), LedgerEntry(version=1, turn=1, block_id="first", text="The shed is locked")
    conclusion = conclude_selection(now, Selection((PADLOCK,), Engine.LLM), (), None)
    for version, text in ((1, f"The shed is locked\n{PADLOCK.memory.content}"), (0, PADLOCK.memory.content)):
        view = LedgerView(turn=4, shown={PADLOCK.memory.id: replace(entry, version=version)})
        (found,) = shown_by(now, conclusion, view, "block").values()
        assert (found.text, found.turn, found.block_id) == (text, 4, "block")


def test_secrets_do_not_reach_the_ledger() -> None:
    secret = Candidate(
        Memory(id="m1", content="Inventory DB: postgres://inv:Tr0ut-9981@db.lan:5432/inv"), 0.5, None, 0.5, 0.5
    )
    now = turn()
    shown = shown_by(now, conclude_selection(now, Selection((secret,), Engine.LLM), (), None), LedgerView(), "block")
    assert "Tr0ut" not in shown["m1"].text


@pytest.mark.parametrize(("asked", "configured", "holds"), [(400, None, 400), (600, 400, 400), (None, 400, 400)])
def test_the_smaller_token_limit_applies(asked: int | None, configured: int | None, holds: int) -> None:
    now = turn(max_tokens=configured, max_total=25)
    now = replace(now, request=now.request.model_copy(update={"render": RenderOptions(max_tokens=asked)}))
    result = result_of(now, conclude_selection(now, Selection(tuple(GOALS), Engine.DETERMINISTIC), (), None))
    assert result.items
    assert estimate_tokens(result.memory_context or "") <= holds
