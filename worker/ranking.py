"""Fuses the two legs of a search into one order. Pure.

Weighted fusion: `w * cosine + (1 - w) * k / (k + 8)` with `k` the BM25 score; it is comparable between queries.
Reciprocal rank fusion (Cormack, Clarke, Buettcher 2009): the sum of `1 / (K + rank)` over the legs, rank from 1.
Boosts multiply, `score * (1 + a * importance + b * 2 ** (-age / half_life))`, and only order what passed the floor.
"""

import math
from collections.abc import Callable, Sequence
from datetime import datetime

from .models import Candidate, Dropped, EmbedderProfile, Hit, Memory, Verdict
from .settings import Fusion, InjectionConfig

KEYWORD_SATURATION = 8.0
SECONDS_PER_DAY = 86_400.0


def rank(
    hits: Sequence[Hit], config: InjectionConfig, profile: EmbedderProfile | None, now: datetime
) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
    """Candidates best first (ties by id), and the hits that are under the floor.

    Without a dense leg there is no floor but a keyword match itself; the caller marks the answer as degraded.
    """
    relevance = weighted(hits, config)
    order = reciprocal_ranks(hits, config) if config.fusion is Fusion.RRF else relevance
    floor = _floor(config, profile) if any(hit.cosine is not None for hit in hits) else None
    kept: list[Candidate] = []
    dropped: list[Dropped] = []
    for hit, relevant, fused in zip(hits, relevance, order, strict=True):
        score = fused * (1.0 + _boost(hit.memory, config, now))
        candidate = Candidate(hit.memory, hit.cosine, hit.keyword, relevant, score, hit.vector)
        if _passes(hit, floor, config.keyword_min_score):
            kept.append(candidate)
        else:
            dropped.append(Dropped(candidate, Verdict.BELOW_FLOOR))
    return tuple(sorted(kept, key=by_score)), tuple(sorted(dropped, key=lambda entry: by_score(entry.candidate)))


def by_score(candidate: Candidate) -> tuple[float, str]:
    """Sort key: best first, ties by id."""
    return (-candidate.score, candidate.memory.id)


def _floor(config: InjectionConfig, profile: EmbedderProfile | None) -> float | None:
    if config.contextual_min_score is not None:
        return config.contextual_min_score
    return profile.floor if profile else None


def _passes(hit: Hit, floor: float | None, keyword_floor: float) -> bool:
    if floor is None:
        return (hit.keyword or 0.0) > 0.0
    return (hit.cosine is not None and hit.cosine >= floor) or (hit.keyword or 0.0) >= keyword_floor


def weighted(hits: Sequence[Hit], config: InjectionConfig) -> list[float]:
    """Weighted sums of both raw scores, 0..1; a leg that no hit has does not count."""
    weight = config.dense_weight if any(hit.cosine is not None for hit in hits) else 0.0
    return [weight * max(0.0, hit.cosine or 0.0) + (1.0 - weight) * saturated(hit.keyword) for hit in hits]


def saturated(keyword: float | None) -> float:
    """A BM25 score brought to 0..1."""
    return keyword / (keyword + KEYWORD_SATURATION) if keyword else 0.0


def reciprocal_ranks(hits: Sequence[Hit], config: InjectionConfig) -> list[float]:
    """Reciprocal rank fusion, scaled so that first place in both legs gives 1."""
    legs: list[Callable[[Hit], float | None]] = [lambda hit: hit.cosine, lambda hit: hit.keyword]
    totals = [0.0] * len(hits)
    for leg in legs:
        ranked = [(value, index) for index, hit in enumerate(hits) if (value := leg(hit)) is not None]
        for place, (_, index) in enumerate(sorted(ranked, key=lambda pair: (-pair[0], hits[pair[1]].memory.id)), 1):
            totals[index] += 1.0 / (config.rrf_k + place)
    best = 2.0 / (config.rrf_k + 1)
    return [total / best for total in totals]


def _boost(memory: Memory, config: InjectionConfig, now: datetime) -> float:
    boost = config.importance_weight * memory.importance
    if memory.created_at is None or memory.created_at > now:
        return boost
    age_days = (now - memory.created_at).total_seconds() / SECONDS_PER_DAY
    return boost + config.recency_weight * math.exp2(-age_days / config.recency_half_life_days)
