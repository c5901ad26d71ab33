"""Brings what the legs of a recall found into one order. Pure.

Relevance is `w * cosine + (1 - w) * k / (k + 8)` with `k` the BM25 score on the scale of a store of a hundred
memories: rare words weigh `ln(1 + (N - n + .5) / (n + .5))`, so raw scores grow with the logarithm of the store's size
`N`. It can be compared between queries and stores; of several searches the best one counts. Reciprocal rank fusion
(Cormack, Clarke, Buettcher 2009) is the sum of `1 / (K + rank)` over the legs, rank from 1.

The order adds to that what is known of a memory besides: its importance, its age, where it was said, when it was, and
what it hangs together with. Those only order: what passes the floor is decided by the raw scores alone.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hooks.contract import ItemSource
from worker.domain.kinds import SearchKind
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, EmbedderProfile, Hit, Memory, is_superseded
from worker.settings.injection import InjectionConfig

KEYWORD_SATURATION = 8.0
KEYWORD_THRESHOLD = 2.2
"""Keyword score, in units of `ln(1 + N)`, from which a memory counts whatever its cosine: about two rare words."""

KEYWORD_ALONE = 0.7
"""The same where there are no vectors: about one rare word."""

USUAL_SIZE = 100
"""Memories in the stores that the constants were measured on."""

SECONDS_PER_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class RankingContext:
    """What an order depends on besides the memories: settings, measured thresholds, the time, the channel, and how
    many memories the tenant has."""

    config: InjectionConfig
    profile: EmbedderProfile | None
    now: datetime
    channel: str | None = None
    size: int = USUAL_SIZE

    @property
    def keyword_unit(self) -> float:
        """What keyword scores are measured in."""
        return keyword_unit(self.size)

    def scaled(self, keyword: float | None) -> float:
        """A keyword score as it would be in a store of the usual size."""
        return (keyword or 0.0) * math.log(1.0 + USUAL_SIZE) / self.keyword_unit


def keyword_unit(size: int) -> float:
    """About the keyword score of one rare word in a store of `size` memories."""
    return math.log(1.0 + max(size, 1))


@dataclass(slots=True)
class Entry:
    """A memory that was found: its best raw scores, its relevance and fused score, and the legs that found it.

    `linked` is what it gains from others; a `vouched` one is linked to something that is surely relevant, and needs no
    score of its own. `handed_over` says that its successor has got its place.
    """

    memory: Memory
    vector: tuple[float, ...] | None
    cosine: float | None = None
    keyword: float | None = None
    relevance: float = 0.0
    fused: float = 0.0
    linked: float = 0.0
    vouched: bool = False
    handed_over: bool = False
    legs: dict[SearchKind, None] = field(default_factory=dict)

    def take(self, other: "Entry", search_kind: SearchKind) -> None:
        """The better of both in everything."""
        self.cosine = _better(self.cosine, other.cosine)
        self.keyword = _better(self.keyword, other.keyword)
        self.relevance = max(self.relevance, other.relevance)
        self.fused = max(self.fused, other.fused)
        self.legs[search_kind] = None


@dataclass(frozen=True, slots=True)
class Links:
    """By memory id: the relevance of the best memory that links to it or that it links to, and the sum over those that
    it shares names with, rare names counting more."""

    by_link: Mapping[str, float]
    by_name: Mapping[str, float]


class Pool:
    """What the searches of one recall found, each memory once."""

    def __init__(self, setting: RankingContext) -> None:
        self.setting = setting
        self.entries: dict[str, Entry] = {}
        self._has_cosines = False

    def add(self, hits: Sequence[Hit], search_kind: SearchKind) -> None:
        """The hits of one search, both its legs together."""
        for hit, relevance in zip(hits, weighted(hits, self.setting), strict=True):
            self.put(Entry(hit.memory, hit.vector, hit.cosine, hit.keyword, relevance, relevance), search_kind)

    def put(self, entry: Entry, search_kind: SearchKind) -> None:
        self._has_cosines = self._has_cosines or entry.cosine is not None
        self.entries.setdefault(entry.memory.id, entry).take(entry, search_kind)

    def hand_over(self, waiting: Mapping[str, Sequence[Entry]]) -> None:
        """Give each successor that is here the scores of what it has replaced."""
        for key, replaced in waiting.items():
            successor = self.entries.get(key)
            for entry in replaced:
                entry.handed_over = True
                if successor is not None:
                    successor.take(entry, SearchKind.SUCCESSOR)

    def link(self, links: "Links") -> None:
        """Add what memories gain from those that they hang together with."""
        config = self.setting.config
        for key in links.by_link.keys() | links.by_name.keys():
            entry = self.entries.get(key)
            if entry is not None:
                by_link, by_name = links.by_link.get(key, 0.0), min(1.0, links.by_name.get(key, 0.0))
                entry.linked = config.relation_weight * by_link + config.entity_weight * by_name
                entry.vouched = by_link >= self._confident()
                entry.legs[SearchKind.LINKED] = None

    def _confident(self) -> float:
        """Relevance from which a memory vouches for what it is linked to."""
        configured, profile = self.setting.config.confident_score, self.setting.profile
        return configured if configured is not None else profile.confident if profile else 1.0

    def strongest(self, number: int) -> list[Entry]:
        """The most relevant entries that pass the floor and are not out of date."""
        valid = (
            entry
            for entry in self.entries.values()
            if self.passes(entry) and not is_superseded(entry.memory, self.setting.now)
        )
        return sorted(valid, key=lambda entry: (-entry.relevance, entry.memory.id))[:number]

    def passes(self, entry: Entry) -> bool:
        """Whether the raw scores say that a memory may have to do with the query at all."""
        if entry.vouched:
            return True
        keyword = (entry.keyword or 0.0) / self.setting.keyword_unit
        candidate_threshold = self._candidate_threshold()
        if candidate_threshold is None:
            return keyword >= KEYWORD_ALONE
        return (
            entry.cosine is not None and entry.cosine >= candidate_threshold
        ) or keyword >= self._keyword_threshold()

    def _candidate_threshold(self) -> float | None:
        """The least cosine; `None` where no memory has one, so that words alone decide."""
        if not self._has_cosines:
            return None
        configured, profile = self.setting.config.contextual_min_score, self.setting.profile
        return configured if configured is not None else profile.candidate_threshold if profile else None

    def _opens(self) -> bool:
        """Whether the best that was found says that anything has to do with the query.

        Words alone have no gate, nor has a query that names a time of which there is something: it asks about memories,
        however little it has in common with their wording.
        """
        configured, profile = self.setting.config.recall_min_score, self.setting.profile
        query_threshold = configured if configured is not None else profile.query_threshold if profile else None
        if query_threshold is None or not self._has_cosines:
            return True
        keyword = self._keyword_threshold() * self.setting.keyword_unit
        return any(
            SearchKind.DATED in entry.legs
            or (entry.cosine is not None and entry.cosine >= query_threshold)
            or (entry.keyword or 0.0) >= keyword
            for entry in self.entries.values()
        )

    def _keyword_threshold(self) -> float:
        configured, profile = self.setting.config.keyword_min_score, self.setting.profile
        if configured is not None:
            return configured
        return profile.keyword if profile and profile.keyword is not None else KEYWORD_THRESHOLD

    def ranked(self) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
        """Candidates best first (ties by id), and what is under the floor."""
        candidates = {entry.memory.id: self._candidate(entry) for entry in self.entries.values()}
        passing = {key for key, entry in self.entries.items() if self.passes(entry)} if self._opens() else set()
        kept = [candidate for key, candidate in candidates.items() if key in passing]
        below = [
            Dropped(candidate, CandidateVerdict.BELOW_THRESHOLD)
            for key, candidate in candidates.items()
            if key not in passing
        ]
        return tuple(sorted(kept, key=by_score)), tuple(sorted(below, key=lambda entry: by_score(entry.candidate)))

    def _candidate(self, entry: Entry) -> Candidate:
        return Candidate(
            memory=entry.memory,
            cosine=entry.cosine,
            keyword=entry.keyword,
            relevance=entry.relevance,
            score=entry.fused + entry.linked + self._known_besides(entry),
            vector=entry.vector,
            legs=tuple(entry.legs),
        )

    def _known_besides(self, entry: Entry) -> float:
        """What the order gains from a memory's own marks, and loses where nobody ever needed it."""
        config, memory = self.setting.config, entry.memory
        here = memory.channel is not None and memory.channel == self.setting.channel
        return (
            config.importance_weight * memory.importance
            + config.recency_weight * _freshness(memory, config.recency_half_life_days, self.setting.now)
            + config.channel_weight * here
            + config.dated_weight * (SearchKind.DATED in entry.legs)
        )


def pinned_candidates(hits: Iterable[Hit], now: datetime, half_life_days: float) -> tuple[Candidate, ...]:
    """Memories of a pinned type as candidates, in the order given; nothing was asked, so their relevance is 0."""
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
    """The best `limit` of what was found for a message, and the rest; what is pinned takes no place of it."""
    found = [one for one in candidates if one.source is not ItemSource.PINNED]
    over = {one.memory.id for one in found[limit:]}
    kept = tuple(one for one in candidates if one.source is ItemSource.PINNED or one.memory.id not in over)
    return kept, tuple(Dropped(one, CandidateVerdict.OVER_POOL) for one in found[limit:])


def by_score(candidate: Candidate) -> tuple[float, str]:
    """Sort key: best first, ties by id."""
    return (-candidate.score, candidate.memory.id)


def weighted(hits: Sequence[Hit], setting: RankingContext) -> list[float]:
    """Weighted sums of both raw scores, 0..1; a leg that no hit has does not count."""
    weight = setting.config.dense_weight if any(hit.cosine is not None for hit in hits) else 0.0
    return [
        weight * max(0.0, hit.cosine or 0.0) + (1.0 - weight) * saturated(setting.scaled(hit.keyword)) for hit in hits
    ]


def saturated(keyword: float | None) -> float:
    """A BM25 score brought to 0..1."""
    return keyword / (keyword + KEYWORD_SATURATION) if keyword else 0.0


def _better(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else max(one, other)


def _freshness(memory: Memory, half_life_days: float, now: datetime) -> float:
    """1 for what was noted now, half of it after each half-life; 0 for the future and the undated."""
    if memory.created_at is None or memory.created_at > now:
        return 0.0
    return math.exp2(-(now - memory.created_at).total_seconds() / SECONDS_PER_DAY / half_life_days)
