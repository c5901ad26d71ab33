"""Fusion, floors, boosts and the deterministic choice."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.fallback import choose, is_unsure
from worker.models import EmbedderProfile, Hit, Memory, Recalled, Verdict
from worker.ranking import rank, reciprocal_ranks, saturated
from worker.settings import InjectionConfig

NOW = datetime(2026, 3, 1, tzinfo=UTC)
PROFILE = EmbedderProfile("tiny", "1", 4, floor=0.25, confident=0.5, duplicate=0.92)


def hit(key: str, cosine: float | None, keyword: float | None = None, **fields: Any) -> Hit:
    created = fields.pop("created_at", NOW - timedelta(days=1000))
    return Hit(Memory(id=key, content=key, created_at=created, **fields), cosine, keyword)


def plain(**settings: Any) -> InjectionConfig:
    return InjectionConfig(**{"importance_weight": 0.0, "recency_weight": 0.0, **settings})


def order(hits: list[Hit], config: InjectionConfig) -> list[str]:
    return [candidate.memory.id for candidate in rank(hits, config, PROFILE, NOW)[0]]


def test_weighted_fusion_adds_both_legs() -> None:
    (first, second), _ = rank([hit("a", 0.6), hit("b", 0.5, 8.0)], plain(), PROFILE, NOW)
    assert (first.memory.id, second.memory.id) == ("b", "a")
    assert first.relevance == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    assert second.relevance == pytest.approx(0.36)


def test_floor_is_on_the_raw_cosine_and_a_strong_keyword_match_passes_it() -> None:
    candidates, dropped = rank([hit("a", 0.24), hit("b", 0.26), hit("c", 0.1, 7.0)], plain(), PROFILE, NOW)
    assert {candidate.memory.id for candidate in candidates} == {"b", "c"}
    assert [(entry.candidate.memory.id, entry.verdict) for entry in dropped] == [("a", Verdict.BELOW_FLOOR)]


def test_configured_floor_goes_before_the_embedders() -> None:
    assert order([hit("a", 0.3)], plain(contextual_min_score=0.4)) == []
    assert order([hit("a", 0.1)], plain(contextual_min_score=0.0)) == ["a"]


def test_boosts_order_and_never_lift_over_the_floor() -> None:
    config = InjectionConfig(importance_weight=0.15, recency_weight=0.1)
    hits = [hit("a", 0.50, importance=0.0), hit("b", 0.49, importance=1.0), hit("c", 0.24, importance=1.0)]
    assert order(hits, config) == ["b", "a"]


def test_recency_halves_with_each_half_life_and_the_future_gains_nothing() -> None:
    config = plain(recency_weight=0.1, recency_half_life_days=90.0)
    fresh = hit("new", 0.5, created_at=NOW)
    older = hit("old", 0.5, created_at=NOW - timedelta(days=90))
    future = hit("future", 0.5, created_at=NOW + timedelta(days=365))
    scores = {c.memory.id: c.score for c in rank([fresh, older, future], config, PROFILE, NOW)[0]}
    assert scores["new"] == pytest.approx(0.3 * 1.1)
    assert scores["old"] == pytest.approx(0.3 * 1.05)
    assert scores["future"] == pytest.approx(0.3)


def test_ties_are_cut_by_id() -> None:
    assert order([hit("b", 0.5), hit("a", 0.5), hit("c", 0.5)], plain()) == ["a", "b", "c"]


def test_reciprocal_ranks_follow_their_formula() -> None:
    values = reciprocal_ranks([hit("a", 0.9, 1.0), hit("b", 0.8, 5.0), hit("c", None, 3.0)], plain(rrf_k=2))
    best = 2 / 3
    assert values == pytest.approx([(1 / 3 + 1 / 5) / best, (1 / 4 + 1 / 3) / best, (1 / 4) / best])


def test_rank_fusion_orders_and_relevance_still_gates() -> None:
    (first, *_), _ = rank([hit("a", 0.9), hit("b", 0.3, 9.0)], plain(fusion="rrf"), PROFILE, NOW)
    assert first.relevance == pytest.approx(0.6 * 0.3 + 0.4 * saturated(9.0)) or first.memory.id == "a"
    assert choose(Recalled("q", (first,)), plain(), PROFILE).chosen == ((first,) if first.relevance >= 0.5 else ())


def test_without_a_dense_leg_keywords_decide_alone() -> None:
    candidates, dropped = rank([hit("a", None, 2.0), hit("b", None, None)], plain(), PROFILE, NOW)
    assert [candidate.memory.id for candidate in candidates] == ["a"]
    assert candidates[0].relevance == pytest.approx(0.2)
    assert len(dropped) == 1


def test_choice_without_a_model_keeps_the_confident_ones_near_the_best() -> None:
    hits = [hit("a", 0.95), hit("b", 0.9), hit("c", 0.7, 2.0), hit("d", 0.3)]
    candidates, _ = rank(hits, plain(), PROFILE, NOW)
    selection = choose(Recalled("q", candidates), plain(), PROFILE)
    assert [candidate.memory.id for candidate in selection.chosen] == ["a", "b", "c"]
    assert [entry.verdict for entry in selection.dropped] == [Verdict.BELOW_CUT]
    assert is_unsure(selection)


def test_choice_without_a_model_keeps_at_most_max_items() -> None:
    candidates, _ = rank([hit(f"m{n}", 0.9) for n in range(8)], plain(), PROFILE, NOW)
    selection = choose(Recalled("q", candidates), plain(max_items=3), PROFILE)
    assert len(selection.chosen) == 3
    assert {entry.verdict for entry in selection.dropped} == {Verdict.OVER_ITEMS}


@given(
    st.lists(st.tuples(st.floats(-1, 1) | st.none(), st.floats(0, 100) | st.none(), st.floats(0, 1)), max_size=20),
    st.sampled_from(["weighted", "rrf"]),
)
def test_every_hit_is_accounted_for_once_in_falling_order(
    raw: list[tuple[float | None, float | None, float]], fusion: str
) -> None:
    hits = [hit(f"m{n}", cosine, keyword, importance=weight) for n, (cosine, keyword, weight) in enumerate(raw)]
    candidates, dropped = rank(hits, InjectionConfig(fusion=fusion), PROFILE, NOW)
    seen = [c.memory.id for c in candidates] + [entry.candidate.memory.id for entry in dropped]
    assert sorted(seen) == sorted(h.memory.id for h in hits)
    scores = [candidate.score for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
