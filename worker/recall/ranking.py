"""Rank the hits of a recall. Pure.

Relevance is `w * cosine + (1 - w) * k / (k + 8)`, where `k` is the BM25 score scaled to a store of a hundred memories:
a rare word weighs `ln(1 + (N - n + .5) / (n + .5))`, so raw scores grow with the logarithm of the store's size `N`.
Relevance is comparable across queries and stores; a memory has the best relevance of all searches that found it.

The ranking score adds importance, age, channel, time and links. These affect ranking only; whether a memory becomes a
candidate depends on its raw scores.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from hooks.contract import ItemSource
from worker.domain.cues import CueMatch
from worker.domain.kinds import SearchKind
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, EmbedderProfile, Hit, Memory, is_superseded
from worker.domain.vectors import StoredVector
from worker.settings.injection import InjectionConfig

KEYWORD_SATURATION = 8.0
KEYWORD_THRESHOLD = 2.2
"""Least keyword score for any cosine, in units of `ln(1 + N)`: about two rare words."""

KEYWORD_ALONE = 0.7
"""The same without vectors: about one rare word."""

USUAL_SIZE = 100
"""Number of memories in the stores that the constants were measured on."""

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class RankingContext:
    """Everything that ranking depends on besides the memories; `size` is the number of the tenant's memories."""

    config: InjectionConfig
    profile: EmbedderProfile | None
    now: datetime
    channel: str | None = None
    size: int = USUAL_SIZE

    @property
    def keyword_unit(self) -> float:
        return keyword_unit(self.size)

    def relevance(self, cosine: float | None, keyword: float | None, dense_weight: float) -> float:
        """Return the weighted sum of both scores, 0..1."""
        scaled = (keyword or 0.0) * keyword_unit(USUAL_SIZE) / keyword_unit(self.size)
        return dense_weight * max(0.0, cosine or 0.0) + (1.0 - dense_weight) * saturated(scaled)


@lru_cache(maxsize=1024)  # asked for every candidate
def keyword_unit(size: int) -> float:
    """Return about the keyword score of one rare word in a store of `size` memories."""
    return math.log(1.0 + max(size, 1))


@dataclass(slots=True)
class Entry:
    """A found memory with its best scores and the searches that found it.

    `cues` is set when all entries are known. `linked` is its score from links and shared names. A `vouched` entry is
    linked to a confident one and needs no score of its own. `handed_over` entries have passed their scores to their
    successor.
    """

    memory: Memory
    vector: StoredVector | None = field(compare=False)
    cosine: float | None = None
    keyword: float | None = None
    relevance: float = 0.0
    cue_rows: bytes = b""
    cues: CueMatch | None = None
    linked: float = 0.0
    vouched: bool = False
    handed_over: bool = False
    found_by: dict[SearchKind, None] = field(default_factory=dict)

    def take(self, other: "Entry", search_kind: SearchKind) -> None:
        """Keep the better of both in each score."""
        self.cosine = _better(self.cosine, other.cosine)
        self.keyword = _better(self.keyword, other.keyword)
        self.relevance = max(self.relevance, other.relevance)
        self.found_by[search_kind] = None


@dataclass(frozen=True, slots=True)
class Links:
    """Scores by memory id: the best relevance of a linked memory, and the sum over memories that share names with it,
    weighted by the rarity of the name."""

    by_link: Mapping[str, float]
    by_name: Mapping[str, float]


class Pool:
    """The hits of one recall, each memory once."""

    def __init__(self, context: RankingContext) -> None:
        self.context = context
        self.entries: dict[str, Entry] = {}
        self._has_cosines = False

    def add(self, hits: Sequence[Hit], search_kind: SearchKind) -> None:
        """Add the hits of one search."""
        for hit, relevance in zip(hits, weighted(hits, self.context), strict=True):
            entry = Entry(hit.memory, hit.vector, hit.cosine, hit.keyword, relevance, hit.cue_rows)
            self.put(entry, search_kind)

    def put(self, entry: Entry, search_kind: SearchKind) -> None:
        self._has_cosines = self._has_cosines or entry.cosine is not None
        self.entries.setdefault(entry.memory.id, entry).take(entry, search_kind)

    def hand_over(self, waiting: Mapping[str, Sequence[Entry]]) -> None:
        """Pass the scores of superseded entries to their successors; `waiting` lists them by successor id."""
        for key, replaced in waiting.items():
            successor = self.entries.get(key)
            for entry in replaced:
                entry.handed_over = True
                if successor is not None:
                    successor.take(entry, SearchKind.SUCCESSOR)

    def link(self, links: Links) -> None:
        """Add the scores from links and shared names."""
        config = self.context.config
        for key in links.by_link.keys() | links.by_name.keys():
            entry = self.entries.get(key)
            if entry is not None:
                by_link, by_name = links.by_link.get(key, 0.0), min(1.0, links.by_name.get(key, 0.0))
                entry.linked = config.relation_weight * by_link + config.entity_weight * by_name
                entry.vouched = by_link >= self._confident()
                entry.found_by[SearchKind.LINKED] = None

    def _confident(self) -> float:
        configured, profile = self.context.config.confident_score, self.context.profile
        return configured if configured is not None else profile.confident if profile else 1.0

    def strongest(self, number: int) -> list[Entry]:
        """Return the most relevant candidates that are not outdated."""
        now = self.context.now
        valid = (one for one in self.entries.values() if self.passes(one) and not is_superseded(one.memory, now))
        return sorted(valid, key=lambda entry: (-entry.relevance, entry.memory.id))[:number]

    def passes(self, entry: Entry) -> bool:
        """Return whether a memory's raw scores reach the candidate thresholds."""
        if entry.vouched:
            return True
        keyword = (entry.keyword or 0.0) / self.context.keyword_unit
        candidate_threshold = self._candidate_threshold()
        if candidate_threshold is None:
            return keyword >= KEYWORD_ALONE
        near = entry.cosine is not None and entry.cosine >= candidate_threshold
        return near or keyword >= self._keyword_threshold()

    def _candidate_threshold(self) -> float | None:
        """Return the least cosine, `None` if no memory has a cosine."""
        if not self._has_cosines:
            return None
        configured, profile = self.context.config.contextual_min_score, self.context.profile
        return configured if configured is not None else profile.candidate_threshold if profile else None

    def _any_relevant(self) -> bool:
        """Return whether any entry reaches the query thresholds.

        There is no threshold without vectors, nor if a memory is from the time that the query names: such a query is
        about memories even if it shares no words with them.
        """
        configured, profile = self.context.config.recall_min_score, self.context.profile
        query_threshold = configured if configured is not None else profile.query_threshold if profile else None
        if query_threshold is None or not self._has_cosines:
            return True
        keyword = self._keyword_threshold() * self.context.keyword_unit
        return any(
            SearchKind.DATED in entry.found_by
            or (entry.cosine is not None and entry.cosine >= query_threshold)
            or (entry.keyword or 0.0) >= keyword
            for entry in self.entries.values()
        )

    def _keyword_threshold(self) -> float:
        configured, profile = self.context.config.keyword_min_score, self.context.profile
        if configured is not None:
            return configured
        return profile.keyword if profile and profile.keyword is not None else KEYWORD_THRESHOLD

    def ranked(self) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
        """Return candidates, best first (ties by id), and what is below the thresholds."""
        relevant = self._any_relevant()
        kept: list[Candidate] = []
        below: list[Candidate] = []
        for entry in self.entries.values():
            (kept if relevant and self.passes(entry) else below).append(self._candidate(entry))
        dropped = (Dropped(one, CandidateVerdict.BELOW_THRESHOLD) for one in sorted(below, key=_by_score))
        return tuple(sorted(kept, key=_by_score)), tuple(dropped)

    def _candidate(self, entry: Entry) -> Candidate:
        return Candidate(
            memory=entry.memory,
            cosine=entry.cosine,
            keyword=entry.keyword,
            relevance=entry.relevance,
            score=entry.relevance + entry.linked + self._boost(entry),
            vector=entry.vector,
            legs=tuple(entry.found_by),
            cues=entry.cues,
        )

    def _boost(self, entry: Entry) -> float:
        config, memory = self.context.config, entry.memory
        here = memory.channel is not None and memory.channel == self.context.channel
        return (
            config.importance_weight * memory.importance
            + config.recency_weight * _freshness(memory, config.recency_half_life_days, self.context.now)
            + config.channel_weight * here
            + config.dated_weight * (SearchKind.DATED in entry.found_by)
        )


def pinned_candidates(hits: Iterable[Hit], now: datetime, half_life_days: float) -> tuple[Candidate, ...]:
    """Return pinned memories as candidates of relevance 0, in the given order."""
    return tuple(
        Candidate(
            hit.memory,
            None,
            None,
            relevance=0.0,
            score=hit.memory.importance + _freshness(hit.memory, half_life_days, now),
            vector=hit.vector,
            source=ItemSource.PINNED,
            legs=(SearchKind.PINNED,),
        )
        for hit in hits
    )


def within_pool(candidates: Sequence[Candidate], limit: int) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
    """Keep the best `limit` candidates, not counting pinned ones, and drop the rest."""
    found = [one for one in candidates if one.source is not ItemSource.PINNED]
    over = {one.memory.id for one in found[limit:]}
    kept = tuple(one for one in candidates if one.source is ItemSource.PINNED or one.memory.id not in over)
    return kept, tuple(Dropped(one, CandidateVerdict.OVER_POOL) for one in found[limit:])


def _by_score(candidate: Candidate) -> tuple[float, str]:
    return (-candidate.score, candidate.memory.id)


def weighted(hits: Sequence[Hit], context: RankingContext) -> list[float]:
    """Return the relevance of each hit, 0..1; by keywords alone if no hit has a cosine."""
    weight = context.config.dense_weight if any(hit.cosine is not None for hit in hits) else 0.0
    return [context.relevance(hit.cosine, hit.keyword, weight) for hit in hits]


def saturated(keyword: float) -> float:
    """Map a BM25 score to 0..1."""
    return keyword / (keyword + KEYWORD_SATURATION)


def _better(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def _freshness(memory: Memory, half_life_days: float, now: datetime) -> float:
    """Return 1 for a memory created now, half as much after each half-life; 0 for future and undated ones."""
    if memory.created_at is None or memory.created_at > now:
        return 0.0
    return math.exp2(-(now - memory.created_at).total_seconds() / SECONDS_PER_DAY / half_life_days)
