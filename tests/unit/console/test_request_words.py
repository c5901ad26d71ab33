"""Requests in words and pictures."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hooks.contract import InjectionRequest, Outcome, Reason
from tests.support.paths import ROOT
from worker.console.request_words import STAGES, mark_of, waterfall_of
from worker.console.words import ago
from worker.domain.receipt import Receipt


@pytest.mark.parametrize(
    ("outcome", "reason", "degraded", "kind", "words"),
    [
        (Outcome.INJECTED, None, False, "good", "1 memory given"),
        (Outcome.INJECTED, Reason.MODEL_TIMEOUT, True, "warn", "1 memory given, without the model: it was too late"),
        (Outcome.NONE_RELEVANT, Reason.NOTHING_SELECTED, False, "none", "Nothing fit"),
        (Outcome.SKIPPED, Reason.GREETING, False, "none", "Not searched: a greeting"),
        (Outcome.ERROR, Reason.STORE_UNAVAILABLE, True, "bad", "Failed: the store does not answer"),
        (Outcome.TIMEOUT, None, False, "bad", "Too late"),
    ],
)
def test_a_mark_says_what_happened(
    outcome: Outcome, reason: Reason | None, degraded: bool, kind: str, words: str
) -> None:
    mark = mark_of(outcome, reason, 1, degraded=degraded)
    assert (mark.kind, mark.words) == (kind, words)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "just now"), (59, "just now"), (60, "1 minute ago"), (7200, "2 hours ago"), (9e5, "10 days ago")],
)
def test_how_long_ago_something_was(seconds: float, words: str) -> None:
    assert ago(timedelta(seconds=seconds)) == words


def receipt(**fields: Any) -> Receipt:
    request = InjectionRequest(session_id="s", message="m", deadline_ms=1000)
    return Receipt(id="r", at=datetime(2026, 1, 1, tzinfo=UTC), request=request, outcome=Outcome.INJECTED, **fields)


def test_a_waterfall_fits_what_outlasts_the_deadline() -> None:
    flow = waterfall_of(
        receipt(stages={"triage": 1900.0, "search": 0.01}, began_ms={"triage": 100.0, "search": 5.0}, elapsed_ms=2000.0)
    )
    assert [bar.name for bar in flow.bars] == ["search", "choose with the model"]
    assert flow.scale_ms == 2000
    assert flow.deadline == 500
    assert all(bar.x + bar.width <= 1000 for bar in flow.bars)
    assert flow.bars[0].width >= 2


def test_a_receipt_of_a_former_version_has_no_beginnings() -> None:
    assert not waterfall_of(receipt(stages={"search": 3.0})).has_places


def test_every_stage_of_an_injection_has_words() -> None:
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "worker").rglob("*.py"))
    assert {name for text in sources for name in re.findall(r'\bstages\("(\w+)"\)', text)} == set(STAGES)
