"""Shown memories and duplicates."""

import math
from datetime import UTC, datetime, timedelta
from itertools import permutations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.contract import Retention
from tests.support.vectors import row
from worker.domain.ledger import LedgerEntry, LedgerView
from worker.domain.memory import Candidate, CandidateVerdict, Memory, Vector
from worker.injection.duplicates import CHAIN_SLACK, compact, deduplicate, still_shown

START = datetime(2026, 1, 1, tzinfo=UTC)
NEAR = 0.92


def candidate(
    key: str,
    content: str = "",
    version: int = 1,
    *,
    day: int | None = None,
    angle: float | None = None,
    score: float = 0.5,
) -> Candidate:
    """Return a candidate created on a day, with a two-dimensional unit vector at an angle."""
    created = None if day is None else START + timedelta(days=day)
    memory = Memory(id=key, content=content or key, version=version, created_at=created)
    vector = None if angle is None else row(math.cos(angle), math.sin(angle))
    return Candidate(memory, 0.5, None, score, score, vector)


def ids(candidates: tuple[Candidate, ...]) -> list[str]:
    return [found.memory.id for found in candidates]


def entry(text: str = "", vector: Vector | None = None, version: int = 1) -> LedgerEntry:
    return LedgerEntry(version, 1, "b1", text, compact(None if vector is None else row(*vector)))


def test_shown_version_is_dropped_and_an_edit_is_new() -> None:
    shown = {"m1": entry(), "m2": entry()}
    kept, dropped = deduplicate([candidate("m1"), candidate("m2", version=2)], shown)
    assert ids(kept) == ["m2"]
    assert [found.verdict for found in dropped] == [CandidateVerdict.ALREADY_SHOWN]


def test_an_edit_is_not_a_duplicate_of_its_shown_version() -> None:
    shown = {"m1": entry("oat milk", (1.0, 0.0))}
    kept, _ = deduplicate([candidate("m1", "oat milk", 2, angle=0.0)], shown, NEAR)
    assert ids(kept) == ["m1"]


def test_same_id_or_text_is_kept_once() -> None:
    kept, dropped = deduplicate([candidate("m1", "Oat  milk"), candidate("m1"), candidate("m3", "oat milk")], {})
    assert ids(kept) == ["m1"]
    assert {(found.candidate.memory.id, found.verdict, found.of) for found in dropped} == {
        ("m1", CandidateVerdict.DUPLICATE, "m1"),
        ("m3", CandidateVerdict.DUPLICATE, "m1"),
    }


def test_paraphrases_of_shown_memories_are_dropped() -> None:
    shown = {"m1": entry("Mireille takes oat milk", (1.0, 0.0))}
    kept, dropped = deduplicate([candidate("m2", "Mireille likes oat milk", angle=0.2)], shown, NEAR)
    assert kept == ()
    assert [(found.verdict, found.of) for found in dropped] == [(CandidateVerdict.ALREADY_SHOWN, "m1")]


@pytest.mark.parametrize(
    ("content", "angle", "threshold"),
    [
        ("Mireille takes no oat milk", 0.0, NEAR),
        ("Hanna takes oat milk", 0.0, NEAR),
        ("Mireille takes 2 oat milks", 0.0, NEAR),
        ("Mireille has oat milk", 1.0, NEAR),
        ("Mireille has oat milk", 0.0, None),
        ("Mireille has oat milk", None, NEAR),
    ],
    ids=["negation", "name", "number", "far", "no threshold", "no vector"],
)
def test_similar_but_different_memories_are_kept(content: str, angle: float | None, threshold: float | None) -> None:
    shown = {"m1": entry("Mireille takes oat milk", (1.0, 0.0))}
    kept, _ = deduplicate([candidate("m2", content, angle=angle)], shown, threshold)
    assert ids(kept) == ["m2"]


def test_the_newest_duplicate_takes_the_best_position() -> None:
    batch = [
        candidate("m1", "Mireille takes oat milk", day=1, angle=0.0, score=0.9),
        candidate("m9", "Mireille visits on 9 March", day=2, angle=1.5, score=0.8),
        candidate("m8", "Mireille likes oat milk", day=8, angle=0.1, score=0.3),
        candidate("m0", "Mireille has oat milk", day=None, angle=0.05, score=0.2),
    ]
    kept, dropped = deduplicate(batch, {}, NEAR)
    assert ids(kept) == ["m8", "m9"]
    assert (kept[0].score, kept[0].relevance) == (0.9, 0.9)
    assert kept[0].vector is batch[2].vector
    assert {(found.candidate.memory.id, found.of) for found in dropped} == {("m1", "m8"), ("m0", "m8")}


def test_groups_do_not_drift() -> None:
    step = math.acos(0.95)
    batch = [candidate(f"m{n}", f"oat milk {'is fine ' * n}", day=9 - n, angle=n * step) for n in range(4)]
    kept, _ = deduplicate(batch, {}, NEAR)
    assert math.cos(2 * step) < NEAR - CHAIN_SLACK < math.cos(step)
    assert ids(kept) == ["m0", "m2"]


def test_a_duplicate_of_a_duplicate_may_be_slightly_further() -> None:
    step = math.acos(0.965)
    batch = [candidate(f"m{n}", "oat milk" + " too" * n, day=9 - n, angle=n * step) for n in range(3)]
    assert math.cos(2 * step) < NEAR
    kept, dropped = deduplicate(batch, {}, NEAR)
    assert ids(kept) == ["m0"]
    assert {found.of for found in dropped} == {"m0"}


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_the_result_does_not_depend_on_candidate_order(order: tuple[int, ...]) -> None:
    batch = [
        candidate("m1", "Mireille takes oat milk", day=1, angle=0.0),
        candidate("m2", "Mireille has oat milk", day=2, angle=0.1),
        candidate("m3", "Mireille takes no oat milk", day=3, angle=0.0),
    ]
    kept, _ = deduplicate([batch[place] for place in order], {}, NEAR)
    assert set(ids(kept)) == {"m2", "m3"}


@pytest.mark.parametrize("odd", [(), (0.0, 0.0), (math.nan, 1.0), (1.0, 0.0, 0.0)])
def test_invalid_vectors_match_nothing(odd: tuple[float, ...]) -> None:
    memories = [candidate("m1", "oat milk", angle=0.0), candidate("m2", "milk of oats", angle=0.0)]
    third = Candidate(Memory(id="m3", content="oat milk it is"), None, 1.0, 0.5, 0.5, row(*odd))
    shown = {"m0": LedgerEntry(1, 1, "b", "oat milk of old", bytes(7))}
    kept, _ = deduplicate([*memories, third], shown, NEAR)
    assert "m3" in ids(kept)


@given(st.integers(0, 10_000), st.sampled_from([2, 384, 1536]))
def test_compact_vectors_keep_the_cosine(seed: int, dimension: int) -> None:
    values = Random(seed).choices([-1.0, -0.3, -0.01, 0.0, 0.02, 0.5, 0.9], k=dimension)
    values[0] = 1.0
    length = math.hypot(*values)
    kept = compact(row(*(value / length for value in values)))
    assert kept is not None
    assert len(kept) == dimension
    small = [byte - 256 if byte > 127 else byte for byte in kept]
    cosine = sum(a * b for a, b in zip(small, values, strict=True)) / (math.hypot(*small) * length)
    assert cosine > 0.999


def test_no_vector_compacts_to_none() -> None:
    for vector in (None, row(), row(0.0, 0.0), row(math.inf, 1.0), row(math.nan, 1.0)):
        assert compact(vector) is None


@given(
    st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "a 1", "not a"]), st.floats(0, 3), st.integers(0, 9)),
        max_size=8,
    ),
    st.none() | st.floats(0.0, 1.0),
)
def test_every_candidate_is_kept_or_dropped_once(made: list[tuple[Any, ...]], threshold: float | None) -> None:
    batch = [candidate(f"m{key}", text, day=day, angle=angle) for key, text, angle, day in made]
    kept, dropped = deduplicate(batch, {"m0": entry("a", (1.0, 0.0))}, threshold)
    assert len(kept) + len(dropped) == len(batch)
    assert len(set(ids(kept))) == len(kept)
    assert "m0" not in ids(kept)
    assert all(found.of in {*ids(kept), "m0", None, found.candidate.memory.id} for found in dropped)


VIEW = LedgerView(
    turn=11,
    shown={
        "old": LedgerEntry(1, 1, "b1"),
        "new": LedgerEntry(1, 10, "b2"),
        "lasting": LedgerEntry(1, 1, "b3", lasting=True),
    },
)


def test_p6_entries_expire_after_the_window() -> None:
    """A memory shown in turn 5 may be injected again in turn 50."""
    shown = still_shown(VIEW, retention=Retention.HISTORY, visible_blocks=None, depth=10)
    assert set(shown) == {"new", "lasting"}


def test_visible_blocks_override_the_ledger() -> None:
    assert still_shown(VIEW, retention=Retention.HISTORY, visible_blocks=(), depth=100) == {}
    shown = still_shown(VIEW, retention=Retention.HISTORY, visible_blocks=("b1",), depth=100)
    assert set(shown) == {"old"}


def test_ephemeral_blocks_do_not_count_as_shown() -> None:
    assert still_shown(VIEW, retention=Retention.EPHEMERAL, visible_blocks=None, depth=100) == {}
