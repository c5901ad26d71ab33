"""The legs of a recall: which searches answer it, and what its best hits lead to. Pure.

Besides the message itself: further wordings of it (the task, an earlier turn that a follow-up needs), the time that it
speaks of, the names in it, and what the best hits hang together with by links and shared names.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from hooks.contract import InjectionRequest
from worker.domain.kinds import Budget, Language, SearchKind
from worker.domain.memory import SUPERSEDING, Memory, MemoryFilter, RecallQuery, Visibility
from worker.query.focus import Focus, focus
from worker.query.subqueries import subqueries
from worker.query.time_expressions import TimeSpan, time_span
from worker.settings.injection import Enrichment, InjectionConfig
from worker.text.names import bridges, folded, spoken_keys

from .ranking import Entry, Links

MOST_TEXTS = 3
"""Wordings that are searched with at most; each costs a run of the embedder."""

MOST_TEXTS_HIGH = 6
STRONG = 10
"""Hits whose links are followed."""

NAMED = 5
"""Hits whose names are followed."""

COMMON_NAME = 15
"""Hits with one name from which it says nothing any more."""

MOST_STEPS = 8
"""Longest chain of successors that is followed."""

_PAST_WORDS = (
    *("used to", "previously", "formerly", "back then", "at that time", "at the time", "in those days", "originally"),
    *("it was before", "that was before", "this was before", "than before"),
    *("auparavant", "autrefois", "à l.époque", "anciennement", "jadis", "antérieurement"),
    *("früher", "früheren?", "frühere[rs]", "damals", "damaligen?", "ehemals", "ursprünglich", "zuvor"),
    *("antiguamente", "en aquel entonces", "anteriormente", "antes era", "originalmente"),
    *("antigamente", "naquela altura", "na altura", "dantes"),
    *("originariamente", "in passato", "un tempo", "all.epoca"),
)
_PAST_RUNS = ("以前", "当時", "かつて", "元々", "もともと", "從前", "从前", "当时", "當時", "예전", "그때", "당시")
_PAST = re.compile(rf"\b(?:{'|'.join(_PAST_WORDS)})\b|{'|'.join(_PAST_RUNS)}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """One search: with which text, where, at most how many hits per leg, and what it is for."""

    text: str
    where: MemoryFilter
    limit: int
    search_kind: SearchKind


@dataclass(frozen=True, slots=True)
class RecallPlan:
    """The searches of a recall, the message's first, and the time it speaks of.

    `seeds` finds the important memories nearest to the message, for what they lead to.
    """

    wants: tuple[SearchRequest, ...]
    span: TimeSpan | None = None
    seeds: SearchRequest | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """What has to be embedded, each once."""
        return tuple(dict.fromkeys(want.text for want in self.wants if want.text))


def about_the_past(text: str) -> bool:
    """Whether `text` asks how something used to be; words that mean "before" in other ways as well do not count."""
    return _PAST.search(text) is not None


def first_query(request: InjectionRequest, focused: Focus, config: InjectionConfig) -> RecallQuery:
    """What a request itself recalls: its query, the task in its own words, and the other reading of what may be a
    follow-up. A message that has borrowed its subject says too little to be searched with alone.
    """
    task = _task_of(request, config)
    readings = () if focused.borrowed else focused.alternatives
    also = (task, *(text for text in readings if text not in focused.query))
    past = config.recall_history and (about_the_past(focused.query) or about_the_past(task))
    distinct = dict.fromkeys(text for text in also if text and text != focused.query)
    return RecallQuery(focused.query, also=tuple(distinct), history=past, pinned=True)


def _task_of(request: InjectionRequest, config: InjectionConfig) -> str:
    """The task as it is searched with; empty where it says no more than the message."""
    task = request.task_description or ""
    if task.split() == request.message.split():
        return ""
    alone = config.model_copy(update={"query_enrichment": Enrichment.OFF})
    return focus(request.model_copy(update={"message": task, "task_description": None}), alone).query


def plan_of(query: RecallQuery, where: MemoryFilter, now: datetime, config: InjectionConfig) -> RecallPlan:
    """The searches for `query` within its budget; `where` is what they all are narrowed to."""
    budget = query.budget or config.recall_budget
    limit = config.search_limit
    message = SearchRequest(query.query, where, limit, SearchKind.MESSAGE)
    if budget is Budget.LOW:
        return RecallPlan((message,))
    texts = _wordings(query, budget, config.languages)
    wants = [message, *(SearchRequest(text, where, limit, SearchKind.WORDING) for text in texts)]
    span = _span((query.query, *query.also), now, config.languages)
    if span is not None and query.since is None and query.until is None:
        within = replace(where, since=span.since, until=span.until)
        wants.append(SearchRequest(query.query, within, limit, SearchKind.DATED))
    names = spoken_keys(" ".join((query.query, *query.also)))
    if names and not query.entities:
        wants.append(SearchRequest(query.query, replace(where, names=names), limit, SearchKind.NAMED))
    return RecallPlan(tuple(wants), span, _seeds(query, where, config))


def _seeds(query: RecallQuery, where: MemoryFilter, config: InjectionConfig) -> SearchRequest | None:
    if config.graph_limit == 0 or config.graph_seed_limit == 0:
        return None
    important = replace(where, importance=config.graph_seed_threshold)
    return SearchRequest(query.query, important, config.graph_seed_limit, SearchKind.LINKED)


def _wordings(query: RecallQuery, budget: Budget, languages: Sequence[Language]) -> tuple[str, ...]:
    if budget is Budget.MID:
        return query.also[: MOST_TEXTS - 1]
    parts = (part for text in (query.query, *query.also) for part in subqueries(text, languages))
    distinct = dict.fromkeys(text for text in (*query.also, *parts) if text != query.query)
    return tuple(distinct)[: MOST_TEXTS_HIGH - 1]


def _span(texts: Iterable[str], now: datetime, languages: Sequence[Language]) -> TimeSpan | None:
    """The time that the message or a wording of it speaks of."""
    return time_span(". ".join(texts), now, languages)


def filter_of(query: RecallQuery, visibility: Visibility) -> MemoryFilter:
    """What every search of `query` is narrowed to. Superseded memories are let through for what they lead to."""
    return MemoryFilter(
        visibility=replace(visibility, superseded=True),
        types=query.types,
        entities=tuple(entity.casefold() for entity in query.entities),
        since=query.since,
        until=query.until,
        channels=query.channels,
    )


def linked_ids(seeds: Iterable[Entry], known: Mapping[str, object], limit: int) -> tuple[str, ...]:
    """What the seeds link to and is not known yet; a memory that is out of date is no neighbour."""
    targets = (
        relation.target for seed in seeds for relation in seed.memory.relations if relation.kind not in SUPERSEDING
    )
    return tuple(dict.fromkeys(target for target in targets if target not in known))[:limit]


def shared_names(seeds: Sequence[Entry]) -> tuple[str, ...]:
    """Names of the seeds that may lead to others; bare first names and names of most of the seeds do not."""
    contents = [seed.memory.content for seed in seeds]
    counted = Counter(entity for seed in seeds for entity in set(seed.memory.entities))
    return tuple(
        entity.casefold()
        for entity, count in counted.most_common()
        if bridges(entity, contents) and (count <= 2 or count < len(seeds))
    )


def links(leading: Sequence[Entry], entries: Mapping[str, Entry]) -> Links:
    """How entries hang together with the leading ones."""
    return Links(_by_links(leading, entries), _by_names(leading[:NAMED], entries))


def _by_links(strong: Sequence[Entry], entries: Mapping[str, Entry]) -> dict[str, float]:
    relevance = {seed.memory.id: seed.relevance for seed in strong}
    found: dict[str, float] = {}
    for seed in strong:
        for relation in seed.memory.relations:
            found[relation.target] = max(found.get(relation.target, 0.0), seed.relevance)
    for key, entry in entries.items():
        links = (relevance.get(relation.target, 0.0) for relation in entry.memory.relations)
        found[key] = max([found.get(key, 0.0), *links])
    return {key: bonus for key, bonus in found.items() if bonus > 0.0}


def _by_names(strong: Sequence[Entry], entries: Mapping[str, Entry]) -> dict[str, float]:
    holders: dict[str, list[Entry]] = {}
    for entry in entries.values():
        for name in {folded(entity) for entity in entry.memory.entities}:
            holders.setdefault(name, []).append(entry)
    found: dict[str, float] = {}
    for seed in strong:
        for name in {folded(entity) for entity in seed.memory.entities}:
            others = holders.get(name, [])
            if len(others) > COMMON_NAME:
                continue
            rarity = 1.0 - math.log(max(1, len(others))) / math.log(max(2, len(entries)))
            for other in others:
                if other is not seed and bridges(name, (seed.memory.content, other.memory.content)):
                    found[other.memory.id] = found.get(other.memory.id, 0.0) + seed.relevance * rarity
    return found


def kept_for_history(memory: Memory, query: RecallQuery, span: TimeSpan | None, now: datetime) -> bool:
    """Whether a superseded memory is itself wanted: a recall about the past, or of a time at which it held."""
    if query.history:
        return True
    held_then = span is not None and memory.superseded_at is not None and memory.superseded_at > span.since
    return held_then and span is not None and span.until < now
