"""Blocks within their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.contract import BlockFormat, ItemSource
from hooks.contract.blocks import find_blocks
from worker.domain.memory import Candidate, CandidateVerdict, Memory
from worker.injection.budget import BlockLimits, Fitted, fit
from worker.text.rendering import RenderedMemory, block, shown_text
from worker.text.tokens import estimate_tokens, utf16_length

PINNED, CONTEXTUAL = ItemSource.PINNED, ItemSource.CONTEXTUAL


def fitted(items: list[tuple[ItemSource, str]], limits: BlockLimits, style: BlockFormat = BlockFormat.XML) -> Fitted:
    chosen = [
        Candidate(Memory(id=f"m{place}", content=text or "x"), 0.5, None, 0.5, 0.5, source=source)
        for place, (source, text) in enumerate(items)
    ]
    lines = [RenderedMemory(c.memory, shown_text(c.memory.content, 600, mask=True), c.source) for c in chosen]
    return fit(chosen, lines, limits, style)


def ids(found: Fitted) -> list[str]:
    return [line.memory.id for line in found.lines]


def verdicts(found: Fitted) -> dict[str, CandidateVerdict]:
    return {entry.candidate.memory.id: entry.verdict for entry in found.dropped}


def test_p3_the_total_limit_covers_all_sources() -> None:
    items = [(CONTEXTUAL, f"fact {n}") for n in range(50)] + [(PINNED, f"goal {n}") for n in range(30)]
    found = fitted(items, BlockLimits(contextual=50, total=25, chars=100_000))
    assert len(found.lines) == 25
    assert set(verdicts(found).values()) == {CandidateVerdict.OVER_ITEMS}


def test_pinned_memories_keep_slots_and_found_ones_fill_the_rest() -> None:
    items = [(CONTEXTUAL, f"fact {n}") for n in range(10)] + [(PINNED, f"goal {n}") for n in range(3)]
    found = fitted(items, BlockLimits(contextual=10, total=5, chars=6000))
    assert ids(found) == ["m0", "m1", "m10", "m11", "m12"]


def test_pinned_memories_fill_their_slots_before_found_ones() -> None:
    items = [(CONTEXTUAL, "fact")] + [(PINNED, f"goal {n}") for n in range(9)]
    assert ids(fitted(items, BlockLimits(contextual=5, total=1, chars=6000))) == ["m1"]
    assert ids(fitted(items, BlockLimits(contextual=5, total=3, chars=6000))) == ["m1", "m2", "m3"]


def test_found_memories_have_their_own_limit() -> None:
    items = [(CONTEXTUAL, f"fact {n}") for n in range(9)] + [(PINNED, f"goal {n}") for n in range(4)]
    assert ids(fitted(items, BlockLimits(contextual=2, total=25, chars=6000))) == [
        "m0",
        "m1",
        "m9",
        "m10",
        "m11",
        "m12",
    ]


def test_p10_tokens_are_counted_and_long_pinned_goals_leave_room() -> None:
    goals = [(PINNED, f"goal {n} " + "word " * 118) for n in range(12)]
    found = fitted([(CONTEXTUAL, "Allotment gate padlock is 3380"), *goals], BlockLimits(5, 25, 100_000, tokens=800))
    whole = block(found.lines, BlockFormat.XML) or ""
    assert ids(found)[0] == "m0"
    assert len(ids(found)) > 2
    assert estimate_tokens(whole) <= 800
    assert set(verdicts(found).values()) == {CandidateVerdict.OVER_TOKENS}


def test_east_asian_text_costs_more_tokens() -> None:
    items = [(CONTEXTUAL, "東京" * 50), (CONTEXTUAL, "a" * 100)]
    assert ids(fitted(items, BlockLimits(5, 25, 6000, tokens=100))) == ["m1"]


def test_a_shorter_memory_may_fit_after_a_skipped_one() -> None:
    items = [(CONTEXTUAL, "a" * 500), (CONTEXTUAL, "b" * 500), (CONTEXTUAL, "short")]
    found = fitted(items, BlockLimits(5, 25, chars=800))
    assert ids(found) == ["m0", "m2"]
    assert verdicts(found) == {"m1": CandidateVerdict.OVER_CHARS}


def test_memories_are_never_cut() -> None:
    found = fitted([(CONTEXTUAL, "word " * 100)], BlockLimits(5, 25, chars=300))
    assert found.lines == ()


@pytest.mark.parametrize("style", list(BlockFormat))
@given(
    items=st.lists(st.tuples(st.sampled_from(list(ItemSource)), st.text(max_size=400)), max_size=8),
    total=st.integers(1, 6),
    contextual=st.integers(1, 6),
    chars=st.integers(200, 2000),
    tokens=st.none() | st.integers(50, 600),
)
def test_no_limit_is_exceeded(
    style: BlockFormat,
    items: list[tuple[ItemSource, str]],
    total: int,
    contextual: int,
    chars: int,
    tokens: int | None,
) -> None:
    found = fitted(items, BlockLimits(contextual, total, chars, tokens), style)
    whole = block(found.lines, style) or ""
    assert utf16_length(whole) <= chars
    assert tokens is None or estimate_tokens(whole) <= tokens
    assert find_blocks(whole) == ([whole] if whole else [])
    assert len(found.lines) <= total
    assert sum(line.source is CONTEXTUAL for line in found.lines) <= contextual
    places = [int(name[1:]) for name in ids(found)]
    assert places == sorted(places)
    assert sorted([*ids(found), *verdicts(found)]) == sorted(f"m{n}" for n in range(len(items)))


def test_characters_are_utf16_units() -> None:
    smiles = [(CONTEXTUAL, "\U0001f600" * 200)]
    assert ids(fitted(smiles, BlockLimits(5, 25, chars=500))) == []
    assert ids(fitted(smiles, BlockLimits(5, 25, chars=600))) == ["m0"]


@given(st.text())
def test_a_token_has_at_most_four_bytes(text: str) -> None:
    assert 4 * estimate_tokens(text) >= len(text.encode("utf-8", "replace"))
