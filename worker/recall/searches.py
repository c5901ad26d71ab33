"""Plan the searches of a recall, and find the neighbours of its best hits. Pure.

Searches use the message, other wordings of it (the task, an earlier turn that a follow-up needs), and the time and
names in it. Neighbours are memories linked to the best hits or sharing names with them.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo

from hooks.contract import InjectionRequest
from worker.domain.kinds import Budget, Language, SearchKind
from worker.domain.memory import SUPERSEDING, Memory, MemoryFilter, RecallQuery, Visibility
from worker.domain.zones import in_zone
from worker.query.focus import Focus, focus
from worker.query.subqueries import subqueries
from worker.query.time_expressions import TimeSpan, time_span
from worker.query.time_ranges import time_range
from worker.settings.injection import Enrichment, InjectionConfig
from worker.text.names import bridges, folded, spoken_keys

from .ranking import Entry, Links

MOST_TEXTS = 3
"""Most wordings to search with; each is embedded."""

MOST_TEXTS_HIGH = 6
STRONG = 10
"""Best hits whose links are followed."""

NAMED = 5
"""Best hits whose names are followed."""

COMMON_NAME = 15
"""A name of more hits than this is ignored."""

MOST_STEPS = 8
"""Longest chain of successors to follow."""

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
    """One search by vector and keywords; `limit` is the most hits of each."""

    text: str
    where: MemoryFilter
    limit: int
    search_kind: SearchKind


@dataclass(frozen=True, slots=True)
class RecallPlan:
    """The searches of a recall, the message's first, and the time that the message names.

    `seeds` finds important memories near the message, whose links are followed.
    """

    searches: tuple[SearchRequest, ...]
    span: TimeSpan | None = None
    seeds: SearchRequest | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The distinct texts to embed."""
        return tuple(dict.fromkeys(search.text for search in self.searches if search.text))


def about_the_past(text: str) -> bool:
    """Return whether `text` asks how something used to be; ambiguous words such as "before" do not count."""
    return _PAST.search(text) is not None


def first_query(request: InjectionRequest, focused: Focus, config: InjectionConfig) -> RecallQuery:
    """Return a request's first query, with the task and the other reading of a possible follow-up as wordings.

    A message whose query takes its subject from an earlier turn is not searched with alone.
    """
    task = _task_of(request, config)
    readings = () if focused.borrowed else focused.alternatives
    also = (task, *(text for text in readings if text not in focused.query))
    past = config.recall_history and (about_the_past(focused.query) or about_the_past(task))
    distinct = dict.fromkeys(text for text in also if text and text != focused.query)
    return RecallQuery(focused.query, also=tuple(distinct), history=past, pinned=True)


def _task_of(request: InjectionRequest, config: InjectionConfig) -> str:
    """Return the query for the task; empty without a task, and if the task equals the message."""
    task = request.task_description or ""
    if not task or task.split() == request.message.split():
        return ""
    alone = config.model_copy(update={"query_enrichment": Enrichment.OFF})
    return focus(request.model_copy(update={"message": task, "task_description": None}), alone).query


def with_time_range(query: RecallQuery, now: datetime, languages: Sequence[Language]) -> RecallQuery:
    """Return `query` with its time in words as `since` and `until`; unchanged if it is not understood or has both."""
    if query.time is None or query.since is not None or query.until is not None:
        return query
    found = time_range(query.time, now, languages)
    return query if found is None else replace(query, since=found.since, until=found.until, time=None)


def plan_of(query: RecallQuery, where: MemoryFilter, now: datetime, config: InjectionConfig) -> RecallPlan:
    """Plan the searches for `query` within its budget; the filter `where` holds for all of them."""
    budget = query.budget or config.recall_budget
    limit = config.search_limit
    message = SearchRequest(query.query, where, limit, SearchKind.MESSAGE)
    if budget is Budget.LOW:
        return RecallPlan((message,))
    texts = _wordings(query, budget, config.languages)
    searches = [message, *(SearchRequest(text, where, limit, SearchKind.WORDING) for text in texts)]
    span = time_span(". ".join((query.query, *query.also)), now, config.languages)
    if span is not None and query.since is None and query.until is None:
        within = replace(where, since=span.since, until=span.until)
        searches.append(SearchRequest(query.query, within, limit, SearchKind.DATED))
    names = spoken_keys(" ".join((query.query, *query.also)))
    if names and not query.entities:
        searches.append(SearchRequest(query.query, replace(where, names=names), limit, SearchKind.NAMED))
    return RecallPlan(tuple(searches), span, _seeds(query, where, config))


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


def filter_of(query: RecallQuery, visibility: Visibility, zone: tzinfo = UTC) -> MemoryFilter:
    """Return the filter for every search of `query`, whose times without a zone are in `zone`.

    Superseded memories pass, to find their successors.
    """
    return MemoryFilter(
        visibility=replace(visibility, superseded=True),
        types=query.types,
        entities=tuple(entity.casefold() for entity in query.entities),
        since=query.since and in_zone(query.since, zone),
        until=query.until and in_zone(query.until, zone),
        zone=zone,
        channels=query.channels,
    )


def linked_ids(seeds: Iterable[Entry], known: Mapping[str, object], limit: int) -> tuple[str, ...]:
    """Return unknown ids that the seeds link to, except by links between versions of a memory."""
    targets = (
        relation.target for seed in seeds for relation in seed.memory.relations if relation.kind not in SUPERSEDING
    )
    return tuple(dict.fromkeys(target for target in targets if target not in known))[:limit]


def shared_names(seeds: Sequence[Entry]) -> tuple[str, ...]:
    """Return names of the seeds to search with, except bare first names and names that all seeds have."""
    contents = [seed.memory.content for seed in seeds]
    counted = Counter(entity for seed in seeds for entity in set(seed.memory.entities))
    return tuple(
        entity.casefold()
        for entity, count in counted.most_common()
        if bridges(entity, contents) and (count <= 2 or count < len(seeds))
    )


def links(leading: Sequence[Entry], entries: Mapping[str, Entry]) -> Links:
    """Score entries by their links to the leading ones and the names they share with them."""
    return Links(_by_links(leading, entries), _by_names(leading[:NAMED], entries))


def _by_links(strong: Sequence[Entry], entries: Mapping[str, Entry]) -> dict[str, float]:
    relevance = {seed.memory.id: seed.relevance for seed in strong}
    found: dict[str, float] = {}
    for seed in strong:
        for relation in seed.memory.relations:
            found[relation.target] = max(found.get(relation.target, 0.0), seed.relevance)
    for key, entry in entries.items():
        if relations := entry.memory.relations:
            links = (relevance.get(relation.target, 0.0) for relation in relations)
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
    """Return whether to keep a superseded memory: the query is about the past, or about a time when it was valid."""
    if query.history or span is None:
        return query.history
    return memory.superseded_at is not None and memory.superseded_at > span.since and span.until < now
