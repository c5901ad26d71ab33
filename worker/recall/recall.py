"""Recall memories: embed the query, run all searches in one request, follow links, and rank."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

import structlog

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import EmbedderError, StoreLate
from worker.domain.kinds import Budget, SearchKind, SortKey
from worker.domain.memory import (
    Candidate,
    CandidateVerdict,
    Dropped,
    EmbedderProfile,
    Hit,
    HybridQuery,
    Memory,
    MemoryFilter,
    MemoryType,
    Recalled,
    RecallQuery,
    Vector,
    Visibility,
    is_superseded,
)
from worker.domain.tasks import drop
from worker.domain.timings import Stages
from worker.domain.vectors import Direction, cosine_similarity, direction, usable
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import MemoryStore, StoreEngine
from worker.settings.injection import InjectionConfig
from worker.text.names import full_names, is_namesake, names_in

from .cue_matches import match_cues, with_pieces
from .ranking import USUAL_SIZE, Entry, Pool, RankingContext, pinned_candidates
from .searches import (
    MOST_STEPS,
    NAMED,
    STRONG,
    RecallPlan,
    SearchRequest,
    filter_of,
    kept_for_history,
    linked_ids,
    links,
    plan_of,
    shared_names,
    with_time_range,
)

EMBED_SHARE, EMBED_LEAST_S = 1 / 3, 0.4
"""Share of the time left to wait for vectors, and the least seconds; then, the recall goes on with keywords alone."""

COUNT_AGE = 60.0
"""Seconds for which a tenant's number of memories is cached."""

SEED_SHARE = 0.5
"""Least relevance of an important memory whose neighbours are searched, as a share of the best relevance."""

OVER_FETCH = 1.5
"""Candidates per place in the pool; duplicates are dropped before the pool is cut."""

MOST_DROPPED = 15
"""Memories below the thresholds that are reported, best first."""

MOST_TENANTS = 1000
"""Tenants whose counts are cached."""

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RecallScope:
    """Tenant, visibility, time and channel of a request; `now` is in the request's time zone."""

    tenant: str
    visibility: Visibility
    now: datetime
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class _RecallRequest:
    """Everything that stays the same during one recall."""

    query: RecallQuery
    scope: RecallScope
    config: InjectionConfig
    plan: RecallPlan
    store: MemoryStore


@dataclass(frozen=True, slots=True)
class Leading:
    """How many memories of a type are wanted, and which first."""

    type: MemoryType
    sort: SortKey
    limit: int


class Recall:
    """Recall memories from a store.

    `dense_fault` is the reason not to use the embedder, if any. `profile` replaces the embedder's own, after
    calibration.
    """

    def __init__(
        self,
        engine: StoreEngine,
        sparse: SparseEncoder,
        embedder: Embedder | None,
        dense_fault: Reason | None = None,
        profile: EmbedderProfile | None = None,
    ) -> None:
        self._engine = engine
        self._sparse = sparse
        self._embedder = None if dense_fault else embedder
        self._dense_fault = dense_fault
        self._profile = (profile or self._embedder.profile) if self._embedder else None
        self._sizes: OrderedDict[str, tuple[float, int]] = OrderedDict()

    async def __call__(
        self, query: RecallQuery, scope: RecallScope, config: InjectionConfig, deadline: Deadline, stages: Stages
    ) -> Recalled:
        """Return candidates for `query`: pinned ones, then the others, best first.

        Raise `StoreError` if the store fails or does not answer in time.
        """
        query = with_time_range(query, scope.now, config.languages)
        plan = plan_of(query, filter_of(query, scope.visibility, scope.now.tzinfo or UTC), scope.now, config)
        asked = _RecallRequest(query, scope, config, plan, self._engine.tenant(scope.tenant))
        try:
            async with asyncio.timeout(deadline.remaining()):
                found = await self._recall(asked, deadline, stages)
        except TimeoutError as error:
            raise StoreLate("the search did not end within the deadline") from error
        return found if query.time is None else replace(found, ignored=("time",))

    async def present(self, ids: Sequence[str], scope: RecallScope, deadline: Deadline) -> list[Memory]:
        """Return those of `ids` that exist and are visible, outdated ones included. Raise `StoreError`."""
        where = MemoryFilter(replace(scope.visibility, superseded=True), ids=tuple(ids))
        store = self._engine.tenant(scope.tenant)
        try:
            async with asyncio.timeout(deadline.remaining()):
                hits = await store.ordered(where, SortKey.RECENT, limit=max(1, len(ids)))
        except TimeoutError as error:
            raise StoreLate("the store did not answer within the deadline") from error
        return [hit.memory for hit in hits]

    async def leading(
        self, wanted: Sequence[Leading], scope: RecallScope, config: InjectionConfig, deadline: Deadline
    ) -> tuple[Candidate, ...]:
        """Return the first memories of some types that are visible and valid, without a search. Raise `StoreError`."""
        store = self._engine.tenant(scope.tenant)
        jobs = (
            store.ordered(MemoryFilter(scope.visibility, types=(one.type,)), one.sort, limit=one.limit)
            for one in wanted
        )
        try:
            async with asyncio.timeout(deadline.remaining()):
                pages = await asyncio.gather(*jobs)
        except TimeoutError as error:
            raise StoreLate("the store did not answer within the deadline") from error
        hits = [hit for page in pages for hit in page]
        return pinned_candidates(hits, scope.now, config.recency_half_life_days)

    async def _recall(self, asked: _RecallRequest, deadline: Deadline, stages: Stages) -> Recalled:
        (vectors, degraded), pinned, size = await asyncio.gather(
            self._embedded(asked.plan.texts, deadline, stages),
            self._pinned(asked),
            self._size(asked.scope.tenant, asked.store),
        )
        pool = Pool(RankingContext(asked.config, self._profile, asked.scope.now, asked.scope.channel, size))
        with stages("search"):
            plan = asked.plan
            searches = plan.searches if plan.seeds is None else (*plan.searches, plan.seeds)
            found = await self._found(asked.store, [self._hybrid(search, vectors) for search in searches])
        for search, hits in zip(plan.searches, found, strict=False):
            pool.add(hits, search.search_kind)
        with stages("links"):
            await self._follow(asked, pool, vectors, [] if plan.seeds is None else found[-1])
        with stages("rank"):
            match_cues(pool.entries.values(), list(vectors.values()))
            return _ranked(asked, pool, pinned, degraded)

    async def _found(self, store: MemoryStore, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        """Return the hits of each query; one with neither a vector nor a keyword, such as of stop words, has none."""
        askable = [query.dense is not None or (query.sparse is not None and query.sparse.indices) for query in queries]
        asked = [query for query, can in zip(queries, askable, strict=True) if can]
        pages = iter(await store.search_many(asked)) if asked else iter(())
        found = [next(pages) if can else [] for can in askable]
        return [
            with_pieces(_in_time(hits, query.where), query.dense) for hits, query in zip(found, queries, strict=True)
        ]

    def _hybrid(self, search: SearchRequest, vectors: dict[str, Vector]) -> HybridQuery:
        return HybridQuery(vectors.get(search.text), self._sparse.query(search.text), search.where, search.limit)

    async def _embedded(
        self, texts: Sequence[str], deadline: Deadline, stages: Stages
    ) -> tuple[dict[str, Vector], Reason | None]:
        """Return the vectors that were ready in time, and the reason if the first one was not."""
        if self._embedder is None or not texts:
            return {}, None if self._embedder else self._dense_fault
        limit = deadline.share(EMBED_SHARE, least=EMBED_LEAST_S)
        with stages("embed"):
            jobs = [asyncio.create_task(self._embedder.embed_query(text)) for text in texts]
            try:
                done, _ = await asyncio.wait(jobs, timeout=limit.remaining())
            finally:
                drop(*jobs)
        answered = [(text, job) for text, job in zip(texts, jobs, strict=True) if job in done]
        found = _vectors(answered, self._embedder.profile.dimension)
        return found, None if texts[0] in found else Reason.EMBEDDER_UNAVAILABLE

    async def _pinned(self, asked: _RecallRequest) -> tuple[Hit, ...]:
        """Return the pinned memories and the first ones of each pinned type, whatever the query."""
        config, visibility = asked.config, asked.scope.visibility
        if not asked.query.pinned:
            return ()
        types = dict.fromkeys(config.pinned_types) if config.ambient_enabled else ()
        wanted = [(MemoryFilter(visibility, pinned=True), config.max_total)]
        wanted += [(MemoryFilter(visibility, types=(kind,)), config.pinned_limit) for kind in types]
        pages = await asyncio.gather(
            *(asked.store.ordered(where, config.pinned_sort, limit=limit) for where, limit in wanted)
        )
        return tuple({hit.memory.id: hit for page in pages for hit in page}.values())

    async def _size(self, tenant: str, store: MemoryStore) -> int:
        """Return the tenant's number of memories, cached for `COUNT_AGE`."""
        now = time.monotonic()
        counted_at, size = self._sizes.get(tenant, (-math.inf, USUAL_SIZE))
        if now - counted_at < COUNT_AGE:
            return size
        size = await store.count()
        self._sizes[tenant] = (now, size)
        self._sizes.move_to_end(tenant)
        while len(self._sizes) > MOST_TENANTS:
            self._sizes.popitem(last=False)
        return size

    async def _follow(self, asked: _RecallRequest, pool: Pool, vectors: dict[str, Vector], seeds: list[Hit]) -> None:
        """Add the successors of outdated entries, and the neighbours of the best entries."""
        await _replace_superseded(asked, pool)
        budget = asked.query.budget or asked.config.recall_budget
        if asked.config.graph_limit <= 0 or budget is Budget.LOW:
            return
        strong = pool.strongest(STRONG)
        wordings = [direction(vector) for vector in vectors.values()]
        leading = [*strong, *_leading(pool, seeds, wordings, {entry.memory.id for entry in strong})]
        for hit in await self._neighbours(asked, leading, pool, vectors):
            if hit.memory.id not in pool.entries:
                pool.put(_entry_of(hit, pool.context, wordings), SearchKind.LINKED)
        pool.link(links(leading, pool.entries))

    async def _neighbours(
        self, asked: _RecallRequest, leading: Sequence[Entry], pool: Pool, vectors: dict[str, Vector]
    ) -> list[Hit]:
        """Return valid memories that are linked to the leading ones or share names with them."""
        if not leading:
            return []
        limit = asked.config.graph_limit
        valid = replace(asked.plan.searches[0].where, visibility=asked.scope.visibility)
        unknown = replace(valid, other_than=tuple(pool.entries))
        targets = linked_ids(leading, pool.entries, limit)
        pointed = tuple(entry.memory.id for entry in leading)
        names = () if asked.query.entities else shared_names(leading[:NAMED])
        wheres = [replace(unknown, pointing_at=pointed)]
        wheres += [replace(valid, ids=targets)] if targets else []
        wheres += [replace(unknown, entities=names)] if names else []
        return await self._nearest(asked, wheres, limit, vectors)

    async def _nearest(
        self, asked: _RecallRequest, wheres: Sequence[MemoryFilter], limit: int, vectors: dict[str, Vector]
    ) -> list[Hit]:
        """Return the memories of each filter, nearest to the query first; without its vector, latest first."""
        text = asked.query.query
        if text in vectors:
            pages = await self._found(asked.store, [HybridQuery(vectors[text], None, where, limit) for where in wheres])
        else:
            jobs = (asked.store.ordered(where, SortKey.RECENT, limit=limit) for where in wheres)
            pages = await asyncio.gather(*jobs)
        return [hit for page in pages for hit in page]


def _in_time(hits: list[Hit], where: MemoryFilter) -> list[Hit]:
    if where.since is None and where.until is None:
        return hits
    return [hit for hit in hits if where.has_time_of(hit.memory)]


def _vectors(done: "Sequence[tuple[str, asyncio.Task[Vector]]]", dimension: int) -> dict[str, Vector]:
    found: dict[str, Vector] = {}
    for text, job in done:
        try:
            vector = usable(job.result(), dimension)
        except EmbedderError as error:
            log.warning("query_not_embedded", error=str(error))
            continue
        if vector is None:
            log.warning("query_not_embedded", error="the vector has length 0 or another dimension than the store's")
        else:
            found[text] = vector
    return found


async def _replace_superseded(asked: _RecallRequest, pool: Pool) -> None:
    """Pass the scores of outdated entries along the chain of successors to the current one."""
    where = MemoryFilter(replace(asked.scope.visibility, superseded=True), types=asked.query.types)
    for _ in range(MOST_STEPS):
        waiting = _waiting(pool, asked.scope.now)
        unknown = tuple(key for key in waiting if key not in pool.entries)
        if not waiting:
            return
        if unknown:
            for hit in await asked.store.ordered(replace(where, ids=unknown), SortKey.RECENT, limit=len(unknown)):
                pool.put(Entry(hit.memory, hit.vector, cue_rows=hit.cue_rows), SearchKind.SUCCESSOR)
        pool.hand_over(waiting)


def _waiting(pool: Pool, now: datetime) -> dict[str, list[Entry]]:
    """Return superseded entries that were not handed over yet, by the id of their successor."""
    found: dict[str, list[Entry]] = {}
    for entry in pool.entries.values():
        successor = entry.memory.superseded_by
        if successor and not entry.handed_over and is_superseded(entry.memory, now):
            found.setdefault(successor, []).append(entry)
    return found


def _leading(pool: Pool, seeds: Sequence[Hit], wordings: Sequence[Direction], known: set[str]) -> list[Entry]:
    """Return important memories near the query that are not in `known`."""
    now = pool.context.now
    entries = (
        _entry_of(hit, pool.context, wordings)
        for hit in seeds
        if hit.memory.id not in known and not is_superseded(hit.memory, now)
    )
    least = SEED_SHARE * max((entry.relevance for entry in pool.entries.values()), default=0.0)
    return [entry for entry in entries if entry.relevance >= least and pool.passes(entry)]


def _entry_of(hit: Hit, context: RankingContext, wordings: Sequence[Direction]) -> Entry:
    """Return an entry scored by its best cosine to the query and its other wordings."""
    known = [] if hit.cosine is None else [hit.cosine]
    others = wordings if len(wordings) > len(known) else ()
    cosines = [cosine for asked_as in others if (cosine := cosine_similarity(asked_as, hit.vector)) is not None]
    best = max([*known, *cosines], default=None)
    weight = context.config.dense_weight if best is not None else 0.0
    relevance = context.relevance(best, hit.keyword, weight)
    return Entry(hit.memory, hit.vector, best, hit.keyword, relevance, hit.cue_rows)


def _ranked(asked: _RecallRequest, pool: Pool, pinned: Sequence[Hit], degraded: Reason | None) -> Recalled:
    config, scope = asked.config, asked.scope
    ranked, dropped = pool.ranked()
    out = {entry.candidate.memory.id: entry for entry in _outdated(asked, ranked)}
    names = _people(asked.query, ranked)
    for candidate in ranked:
        if candidate.memory.id not in out and is_namesake(candidate.memory, names):
            out[candidate.memory.id] = Dropped(candidate, CandidateVerdict.NAMESAKE)
    first = pinned_candidates(pinned, scope.now, config.recency_half_life_days)
    ambient = {candidate.memory.id for candidate in first}
    kept = [one for one in ranked if one.memory.id not in out and one.memory.id not in ambient]
    kept = kept[: int(OVER_FETCH * config.pool_limit)]
    return Recalled(
        asked.query.query, (*first, *kept), (*dropped[:MOST_DROPPED], *out.values()), degraded, pool.context.size
    )


def _people(query: RecallQuery, candidates: Sequence[Candidate]) -> frozenset[tuple[str, str]]:
    """Return the query's full names that some candidate has too: other capitalised words may not be names."""
    asked = full_names(". ".join((query.query, *query.also)))
    return asked & {name for candidate in candidates for name in names_in(candidate.memory)} if asked else asked


def _outdated(asked: _RecallRequest, candidates: Sequence[Candidate]) -> list[Dropped]:
    now = asked.scope.now
    return [
        Dropped(candidate, CandidateVerdict.SUPERSEDED, candidate.memory.superseded_by)
        for candidate in candidates
        if is_superseded(candidate.memory, now)
        and not kept_for_history(candidate.memory, asked.query, asked.plan.span, now)
    ]
