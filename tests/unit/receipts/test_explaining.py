"""Receipts in words: every verdict and reason to skip has an explanation and something to do about it."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hooks.contract import Engine, InjectionRequest, Outcome, Reason
from worker.domain.memory import CandidateVerdict, MemoryType
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.receipts.explaining import WHY, explain

CONFIG: dict[str, object] = {"relevance_profile": "balanced", "contextual_min_score": 0.25}


def considered(verdict: CandidateVerdict, key: str = "m1", **fields: Any) -> ConsideredMemory:
    return ConsideredMemory(
        id=key, type=MemoryType.FACT, text=f"Text of {key}", version=1, score=0.5, verdict=verdict, **fields
    )


def receipt(*memories: ConsideredMemory, outcome: Outcome = Outcome.NONE_RELEVANT, **fields: Any) -> Receipt:
    request = InjectionRequest(session_id="s", message="When does my session expire?", scope={"user": "oscar"})
    values = {"engine": Engine.RELEVANCE_MODEL, "config": CONFIG, **fields}
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return Receipt(id="abcd", at=at, request=request, outcome=outcome, considered=memories, **values)


@pytest.mark.parametrize("verdict", sorted(set(CandidateVerdict) - {CandidateVerdict.CHOSEN}))
def test_every_verdict_says_why_and_what_would_change_it(verdict: CandidateVerdict) -> None:
    told = explain(receipt(considered(verdict)))
    assert told.result == f"Nothing was injected: the nearest memory is {WHY[verdict]}."
    assert told.near[0].startswith("Text of m1 - ")
    assert told.change[0].startswith(f"{WHY[verdict]}: ")
    assert told.correct == ('If "Text of m1" was missing: meeseeks eval label abcd --essential m1',)


@pytest.mark.parametrize(
    "reason",
    [
        *("disabled", "mode_off", "empty_message", "source_skipped", "slash_command"),
        *("skip_pattern", "greeting", "emoji_only", "acknowledgement"),
    ],
)
def test_every_skip_says_why_and_what_to_do(reason: str) -> None:
    told = explain(receipt(outcome=Outcome.SKIPPED, reason=Reason(reason), engine=Engine.NONE))
    assert told.result.startswith("Nothing was searched for: ")
    assert len(told.change) == 1
    assert (told.near, told.correct) == ((), ())


def test_what_missed_is_named_with_its_numbers() -> None:
    near = considered(CandidateVerdict.BELOW_CUT, probability=0.41, relevance=0.8)
    far = considered(CandidateVerdict.BELOW_THRESHOLD, "m2", cosine=0.12)
    told = explain(receipt(near, far, required=0.53))
    assert told.decided == "The built-in relevance model decided, with the profile balanced."
    assert told.near[0].endswith("; probability 0.41, needs 0.53")
    assert told.near[1].endswith("; similarity 0.12, needs 0.25")
    assert told.change[0].endswith("meeseeks eval replay abcd --set relevance_profile=generous")


def test_memories_that_have_nothing_to_do_with_the_message_bring_no_advice_about_profiles() -> None:
    far = considered(CandidateVerdict.BELOW_CUT, "m2", probability=0.02)
    told = explain(receipt(far, required=0.53))
    assert told.change[0].startswith("not relevant enough: no profile would inject it; store the memory")
    chosen = considered(CandidateVerdict.CHOSEN, probability=0.8)
    served = explain(receipt(chosen, far, outcome=Outcome.INJECTED, chosen=("m1",), required=0.53))
    assert served.change == ()


def test_a_deleted_memory_is_named_by_its_id() -> None:
    gone = considered(CandidateVerdict.CHOSEN, probability=0.8, deleted=True)
    told = explain(receipt(gone, outcome=Outcome.INJECTED, chosen=("m1",)))
    assert told.correct == ("If m1 was wrong: meeseeks eval label abcd --forbidden m1",)


def test_without_candidates_the_scope_is_named() -> None:
    told = explain(receipt(engine=Engine.NONE))
    assert "tenant default, user oscar" in told.change[0]


def test_what_was_injected_can_be_called_wrong_and_a_fallback_is_named() -> None:
    chosen, other = considered(CandidateVerdict.CHOSEN), considered(CandidateVerdict.NOT_SELECTED, "m2")
    told = explain(
        receipt(chosen, other, outcome=Outcome.INJECTED, chosen=("m1",), degraded=True, reason=Reason.MODEL_TIMEOUT)
    )
    assert told.result == "1 memory was injected."
    assert told.decided.endswith("This was a fallback: model_timeout.")
    assert told.correct == (
        'If "Text of m1" was wrong: meeseeks eval label abcd --forbidden m1',
        'If "Text of m2" was missing: meeseeks eval label abcd --essential m2',
    )
