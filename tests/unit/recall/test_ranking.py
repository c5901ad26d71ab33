"""Scores, thresholds, boosts and selection by search scores."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.contract import ItemSource
from worker.domain.kinds import SearchKind
from worker.domain.memory import (
    Candidate,
    CandidateVerdict,
    Dropped,
    EmbedderProfile,
    Hit,
    Memory,
    Recalled,
    is_superseded,
)
from worker.injection.search_only import choose, is_unsure
from worker.recall.ranking import (
    USUAL_SIZE,
    Links,
    Pool,
    RankingContext,
    pinned_candidates,
    saturated,
    within_pool,
)
from worker.settings.injection import InjectionConfig

NOW = datetime(2026, 3, 1, tzinfo=UTC)
WITH_QUERY_THRESHOLD = EmbedderProfile(
    "tiny", "1", 4, candidate_threshold=0.1, confident=0.5, duplicate=0.92, keyword=2.0, query_threshold=0.4
)
PROFILE = EmbedderProfile("tiny", "1", 4, candidate_threshold=0.25, confident=0.5, duplicate=0.92)


def rank(
    hits: list[Hit],
    config: InjectionConfig,
    size: int = USUAL_SIZE,
    search_kind: SearchKind = SearchKind.MESSAGE,
    channel: str | None = None,
) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
    pool = Pool(RankingContext(config, PROFILE, NOW, channel, size))
    pool.add(hits, search_kind)
    return pool.ranked()


def hit(key: str, cosine: float | None, keyword: float | None = None, **fields: Any) -> Hit:
    created = fields.pop("created_at", NOW - timedelta(days=1000))
    return Hit(Memory(id=key, content=key, created_at=created, **fields), cosine, keyword)


def plain(**settings: Any) -> InjectionConfig:
    return InjectionConfig(**{"importance_weight": 0.0, "recency_weight": 0.0, **settings})


def pool_of(hits: list[Hit], **settings: Any) -> Pool:
    pool = Pool(RankingContext(plain(**settings), PROFILE, NOW))
    pool.add(hits, SearchKind.MESSAGE)
    return pool


def order(hits: list[Hit], config: InjectionConfig) -> list[str]:
    return [candidate.memory.id for candidate in rank(hits, config)[0]]


def test_relevance_combines_cosine_and_keywords() -> None:
    (first, second), _ = rank([hit("a", 0.6), hit("b", 0.5, 8.0)], plain())
    assert (first.memory.id, second.memory.id) == ("b", "a")
    assert first.relevance == pytest.approx(0.6 * 0.5 + 0.4 * 0.5)
    assert second.relevance == pytest.approx(0.36)


def test_candidates_need_a_cosine_or_a_strong_keyword_match() -> None:
    candidates, dropped = rank([hit("a", 0.24), hit("b", 0.26), hit("c", 0.1, 10.5)], plain())
    assert {candidate.memory.id for candidate in candidates} == {"b", "c"}
    assert [(entry.candidate.memory.id, entry.verdict) for entry in dropped] == [
        ("a", CandidateVerdict.BELOW_THRESHOLD)
    ]


def test_configured_candidate_threshold_overrides_the_profile() -> None:
    assert order([hit("a", 0.3)], plain(contextual_min_score=0.4)) == []
    assert order([hit("a", 0.1)], plain(contextual_min_score=0.0)) == ["a"]


def test_keyword_scores_mean_the_same_in_small_and_large_stores() -> None:
    """A word in one memory scores about ln N for any N."""
    for size in (10, 1_000, 100_000):
        one_rare_word, three = math.log(1 + size), 3 * math.log(1 + size)
        candidates, dropped = rank([hit("a", 0.1, one_rare_word), hit("b", 0.1, three)], plain(), size)
        assert [candidate.memory.id for candidate in candidates] == ["b"]
        assert candidates[0].relevance == pytest.approx(0.06 + 0.4 * saturated(3 * math.log(1 + USUAL_SIZE)))
        assert dropped[0].candidate.keyword == pytest.approx(one_rare_word)


def test_configured_keyword_threshold_overrides_the_profile() -> None:
    rare = math.log(1 + USUAL_SIZE)
    assert order([hit("a", 0.1, 2.0 * rare)], plain(keyword_min_score=2.1)) == []
    assert order([hit("a", 0.1, 0.5 * rare)], plain(keyword_min_score=0.5)) == ["a"]


def test_the_query_threshold_applies_to_the_best_of_either_score() -> None:
    rare = math.log(1 + USUAL_SIZE)

    def kept(*hits: Hit, **settings: Any) -> list[str]:
        pool = Pool(RankingContext(plain(**settings), WITH_QUERY_THRESHOLD, NOW))
        pool.add(hits, SearchKind.MESSAGE)
        return [candidate.memory.id for candidate in pool.ranked()[0]]

    assert kept(hit("a", 0.39), hit("b", 0.2)) == []
    assert kept(hit("a", 0.41), hit("b", 0.2), hit("c", 0.05)) == ["a", "b"]
    assert kept(hit("a", 0.39), hit("b", 0.2, 2.1 * rare)) == ["b", "a"]
    assert kept(hit("a", 0.3), recall_min_score=0.25) == ["a"]
    assert kept(hit("a", 0.5), recall_min_score=0.6) == []


def test_a_hit_from_the_named_time_passes_the_query_threshold() -> None:
    pool = Pool(RankingContext(plain(), WITH_QUERY_THRESHOLD, NOW))
    pool.add([hit("a", 0.2), hit("b", 0.05)], SearchKind.MESSAGE)
    assert pool.ranked()[0] == ()
    pool.add([hit("a", 0.2)], SearchKind.DATED)
    assert [candidate.memory.id for candidate in pool.ranked()[0]] == ["a"]


def test_boosts_affect_ranking_only() -> None:
    config = InjectionConfig(importance_weight=1.0, recency_weight=0.1)
    hits = [hit("a", 0.50, importance=0.0), hit("b", 0.40, importance=1.0), hit("c", 0.24, importance=1.0)]
    assert order(hits, config) == ["b", "a"]


def test_recency_halves_per_half_life_and_is_zero_for_the_future() -> None:
    config = plain(recency_weight=0.1, recency_half_life_days=90.0)
    fresh = hit("new", 0.5, created_at=NOW)
    older = hit("old", 0.5, created_at=NOW - timedelta(days=90))
    future = hit("future", 0.5, created_at=NOW + timedelta(days=365))
    scores = {c.memory.id: c.score for c in rank([fresh, older, future], config)[0]}
    assert scores["new"] == pytest.approx(0.3 + 0.1)
    assert scores["old"] == pytest.approx(0.3 + 0.05)
    assert scores["future"] == pytest.approx(0.3)


def test_channel_and_time_add_to_the_score() -> None:
    config = plain(channel_weight=0.05, dated_weight=0.2)
    hits = [hit("here", 0.5, channel="#rigs"), hit("there", 0.5, channel="#ops"), hit("nowhere", 0.5)]
    (here, *others), _ = rank(hits, config, channel="#rigs")
    assert here.score == pytest.approx(0.35)
    assert [other.score for other in others] == pytest.approx([0.3, 0.3])
    assert rank(hits, config, search_kind=SearchKind.DATED)[0][0].score == pytest.approx(0.5)


def test_the_best_of_several_searches_counts() -> None:
    pool = pool_of([hit("a", 0.5), hit("b", 0.4)])
    pool.add([hit("b", 0.9, 4.0)], SearchKind.WORDING)
    (first, _), _ = pool.ranked()
    assert (first.memory.id, first.cosine, first.keyword) == ("b", 0.9, 4.0)
    assert first.legs == (SearchKind.MESSAGE, SearchKind.WORDING)


def test_links_add_to_the_score_and_admit_unscored_memories() -> None:
    pool = pool_of(
        [hit("a", 0.95), hit("b", 0.3), hit("c", 0.1), hit("d", 0.1)], relation_weight=0.5, entity_weight=0.2
    )
    pool.link(Links({"b": 0.57, "c": 0.57, "d": 0.2, "unknown": 1.0}, {"b": 3.0}))
    candidates, dropped = pool.ranked()
    scores = {candidate.memory.id: candidate.score for candidate in candidates}
    assert scores == pytest.approx({"a": 0.57, "b": 0.18 + 0.5 * 0.57 + 0.2, "c": 0.06 + 0.5 * 0.57})
    assert [entry.candidate.memory.id for entry in dropped] == ["d"]


def test_a_successor_takes_the_scores_of_its_predecessor() -> None:
    pool = pool_of([hit("old", 0.9, 5.0, superseded_by="new"), hit("new", 0.2)])
    old = pool.entries["old"]
    pool.hand_over({"new": [old], "gone": [old]})
    new = pool.entries["new"]
    assert (new.cosine, new.keyword, new.relevance) == (0.9, 5.0, old.relevance)
    assert old.handed_over


def test_superseded_from_its_time_on() -> None:
    assert is_superseded(hit("a", 0.5, superseded_by="b").memory, NOW)
    timed = hit("a", 0.5, superseded_by="b", superseded_at=NOW).memory
    assert is_superseded(timed, NOW)
    assert not is_superseded(timed, NOW - timedelta(seconds=1))


def test_pinned_memories_do_not_count_towards_the_pool() -> None:
    pinned = pinned_candidates([hit("p1", None), hit("p2", None)], NOW, 90.0)
    found, _ = rank([hit(f"m{n}", 0.9 - n / 10) for n in range(4)], plain())
    kept, over = within_pool((*pinned, *found), 3)
    assert [one.memory.id for one in kept] == ["p1", "p2", "m0", "m1", "m2"]
    assert {one.source for one in kept[:2]} == {ItemSource.PINNED}
    assert [(entry.candidate.memory.id, entry.verdict) for entry in over] == [("m3", CandidateVerdict.OVER_POOL)]


def test_ties_are_cut_by_id() -> None:
    assert order([hit("b", 0.5), hit("a", 0.5), hit("c", 0.5)], plain()) == ["a", "b", "c"]


def test_without_vectors_keywords_decide_alone() -> None:
    candidates, dropped = rank([hit("a", None, 8.0), hit("b", None, 2.0), hit("c", None, None)], plain())
    assert [candidate.memory.id for candidate in candidates] == ["a"]
    assert candidates[0].relevance == pytest.approx(0.5)
    assert len(dropped) == 2


def test_search_only_keeps_confident_candidates_near_the_best() -> None:
    hits = [hit("a", 0.95), hit("b", 0.9), hit("c", 0.7, 2.0), hit("d", 0.3)]
    candidates, _ = rank(hits, plain())
    selection = choose(Recalled("q", candidates), plain(), PROFILE)
    assert [candidate.memory.id for candidate in selection.chosen] == ["a", "b", "c"]
    assert [entry.verdict for entry in selection.dropped] == [CandidateVerdict.BELOW_CUT]
    assert is_unsure(selection)


def test_search_only_keeps_at_most_max_items() -> None:
    candidates, _ = rank([hit(f"m{n}", 0.9) for n in range(8)], plain())
    selection = choose(Recalled("q", candidates), plain(max_items=3), PROFILE)
    assert len(selection.chosen) == 3
    assert {entry.verdict for entry in selection.dropped} == {CandidateVerdict.OVER_ITEMS}


@given(
    st.lists(st.tuples(st.floats(-1, 1) | st.none(), st.floats(0, 100) | st.none(), st.floats(0, 1)), max_size=20),
)
def test_every_hit_appears_once_in_descending_order(
    raw: list[tuple[float | None, float | None, float]],
) -> None:
    hits = [hit(f"m{n}", cosine, keyword, importance=weight) for n, (cosine, keyword, weight) in enumerate(raw)]
    candidates, dropped = rank(hits, InjectionConfig())
    seen = [c.memory.id for c in candidates] + [entry.candidate.memory.id for entry in dropped]
    assert sorted(seen) == sorted(h.memory.id for h in hits)
    scores = [candidate.score for candidate in candidates]
    assert scores == sorted(scores, reverse=True)
