"""How `meeseeks admin receipts` explains a verdict."""

from typing import Any

import pytest

from worker.cli.memory.receipts import explained


def entry(verdict: str, probability: float | None, duplicate_of: str | None = None) -> dict[str, Any]:
    return {"verdict": verdict, "probability": probability, "duplicate_of": duplicate_of}


@pytest.mark.parametrize(
    ("verdict", "probability", "required", "words"),
    [
        ("below_cut", 0.41, 0.53, "below_cut: probability 0.41, needs 0.53"),
        ("chosen", 0.62, 0.53, "chosen: probability 0.62, needs 0.53"),
        ("over_items", 0.62, 0.53, "over_items: ranked after the best max_items memories"),
        ("below_cut", None, None, "below_cut: not relevant enough, or much less relevant than others"),
        ("below_cut", 0.41, None, "below_cut: not relevant enough, or much less relevant than others"),
    ],
)
def test_a_verdict_tells_the_probability_that_decided(
    verdict: str, probability: float | None, required: float | None, words: str
) -> None:
    assert explained(entry(verdict, probability), required) == words


def test_a_duplicate_names_the_other_memory() -> None:
    assert explained(entry("duplicate", None, "m2"), 0.5) == "duplicate: says the same as another memory (m2)"
