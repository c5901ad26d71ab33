"""One recall: embed, search every leg in one request, follow what the hits lead to, and put all in one order."""

import asyncio
import math
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
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
    MemoryFilter,
    Recalled,
    RecallQuery,
    Vector,
    Visibility,
    is_superseded,
)
from worker.domain.timings import Stages
from worker.domain.vectors import nearness, usable
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import MemoryStore, StoreEngine
from worker.settings.injection import InjectionConfig
from worker.text.names import full_names, is_namesake, names_in

from .ranking import USUAL_SIZE, Entry, Pool, RankingContext, pinned_candidates, weighted
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
)

EMBED_LIMIT = 0.4
"""Seconds after which a query goes on without its vector: keyword search alone is better than a late answer."""

COUNT_AGE = 60.0
"""Seconds that the number of a tenant's memories is taken to be the same."""

SEED_SHARE = 0.5
"""Share of the best relevance that an important memory needs for its neighbours to be looked at."""

OVER_FETCH = 1.5
"""Candidates per place of the pool: what says the same twice is taken out before the pool is cut."""

MOST_DROPPED = 15
"""Memories under the floor that are told of, the best of them."""

MOST_TENANTS = 1000
"""Tenants whose numbers are kept."""

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RecallScope:
    """What a request may search: its tenant, what it may see there, when "now" is, and where it was said."""

    tenant: str
    visibility: Visibility
    now: datetime
    channel: str | None = None


@dataclass(frozen=True, slots=True)
class _Asked:
    """Everything that stays the same during one recall."""

    query: RecallQuery
    scope: RecallScope
    config: InjectionConfig
    plan: RecallPlan
    store: MemoryStore

    @property
    def follows(self) -> bool:
        """Whether neighbours of the hits are looked for."""
        budget = self.query.budget or self.config.recall_budget
        return self.config.graph_limit > 0 and budget is not Budget.LOW


class Recall:
    """Search the store.

    `dense_fault` says why vectors must not be used although there is an embedder; `profile` is the embedder's with
    thresholds that were measured since.
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
        """Candidates for `query`, those of pinned types first, then best first.

        Raises `StoreError` when the store does not answer in time.
        """
        plan = plan_of(query, filter_of(query, scope.visibility), scope.now, config)
        asked = _Asked(query, scope, config, plan, self._engine.tenant(scope.tenant))
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await self._recall(asked, deadline, stages)
        except TimeoutError as error:
            raise StoreLate("the search did not end within the deadline") from error

    async def _recall(self, asked: _Asked, deadline: Deadline, stages: Stages) -> Recalled:
        (vectors, degraded), pinned, size = await asyncio.gather(
            self._embedded(asked.plan.texts, deadline, stages),
            self._pinned(asked),
            self._size(asked.scope.tenant, asked.store),
        )
        pool = Pool(RankingContext(asked.config, self._profile, asked.scope.now, asked.scope.channel, size))
        with stages("search"):
            plan = asked.plan
            every = plan.wants if plan.seeds is None else (*plan.wants, plan.seeds)
            wanted = [self._hybrid(want, vectors) for want in every] if plan.texts else []
            found = await asked.store.search_many(wanted) if wanted else [[] for _ in every]
        for want, hits in zip(plan.wants, found, strict=False):
            pool.add(hits, want.search_kind)
        with stages("links"):
            await self._follow(asked, pool, vectors, [] if plan.seeds is None else found[-1])
        with stages("rank"):
            return _ranked(asked, pool, pinned, degraded)

    def _hybrid(self, want: SearchRequest, vectors: dict[str, Vector]) -> HybridQuery:
        return HybridQuery(vectors.get(want.text), self._sparse.query(want.text), want.where, want.limit)

    async def _embedded(
        self, texts: Sequence[str], deadline: Deadline, stages: Stages
    ) -> tuple[dict[str, Vector], Reason | None]:
        """The vectors of `texts` as far as they came in time, and why any are missing."""
        if self._embedder is None or not texts:
            return {}, None if self._embedder else self._dense_fault
        with stages("embed"):
            jobs = [asyncio.create_task(self._embedder.embed_query(text)) for text in texts]
            try:
                done, _ = await asyncio.wait(jobs, timeout=deadline.within(EMBED_LIMIT).remaining())
            finally:
                for job in jobs:
                    job.cancel()
        answered = [(text, job) for text, job in zip(texts, jobs, strict=True) if job in done]
        found = _vectors(answered, self._embedder.profile.dimension)
        return found, None if texts[0] in found else Reason.EMBEDDER_UNAVAILABLE

    async def _pinned(self, asked: _Asked) -> tuple[Hit, ...]:
        """The first memories of each pinned type, whatever the message is about."""
        config, query = asked.config, asked.query
        if not (config.ambient_enabled and query.pinned):
            return ()
        kinds = list(dict.fromkeys(config.pinned_types))
        pages = await asyncio.gather(
            *(
                asked.store.ordered(
                    MemoryFilter(asked.scope.visibility, types=(kind,)), config.pinned_sort, limit=config.pinned_limit
                )
                for kind in kinds
            )
        )
        return tuple(hit for page in pages for hit in page)

    async def _size(self, tenant: str, store: MemoryStore) -> int:
        """How many memories the tenant has, counted at most once a minute."""
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

    async def _follow(self, asked: _Asked, pool: Pool, vectors: dict[str, Vector], seeds: list[Hit]) -> None:
        """Put successors in the place of what they have replaced, and bring neighbours of the best."""
        await _replace_superseded(asked, pool)
        if not asked.follows:
            return
        strong = pool.strongest(STRONG)
        leading = [*strong, *_leading(pool, seeds, vectors, {entry.memory.id for entry in strong})]
        for hit in await self._neighbours(asked, leading, pool, vectors):
            if hit.memory.id not in pool.entries:
                pool.put(_entry_of(hit, pool.setting, vectors), SearchKind.LINKED)
        pool.link(links(leading, pool.entries))

    async def _neighbours(
        self, asked: _Asked, leading: Sequence[Entry], pool: Pool, vectors: dict[str, Vector]
    ) -> list[Hit]:
        """What the leading memories link to, what links to them, and what shares their names; valid ones only."""
        if not leading:
            return []
        limit = asked.config.graph_limit
        valid = replace(asked.plan.wants[0].where, visibility=asked.scope.visibility)
        unknown = replace(valid, other_than=tuple(pool.entries))
        targets = linked_ids(leading, pool.entries, limit)
        pointed = tuple(entry.memory.id for entry in leading)
        names = () if asked.query.entities else shared_names(leading[:NAMED])
        wheres = [replace(unknown, pointing_at=pointed)]
        wheres += [replace(valid, ids=targets)] if targets else []
        wheres += [replace(unknown, entities=names)] if names else []
        return await self._nearest(asked, wheres, limit, vectors)

    async def _nearest(
        self, asked: _Asked, wheres: Sequence[MemoryFilter], limit: int, vectors: dict[str, Vector]
    ) -> list[Hit]:
        """What each filter leaves, nearest to the message first; without its vector, the latest first."""
        text = asked.query.query
        if text in vectors:
            wants = [HybridQuery(vectors[text], None, where, limit) for where in wheres]
            pages = await asked.store.search_many(wants)
        else:
            jobs = (asked.store.ordered(where, SortKey.RECENT, limit=limit) for where in wheres)
            pages = await asyncio.gather(*jobs)
        return [hit for page in pages for hit in page]


def _vectors(done: "Sequence[tuple[str, asyncio.Task[Vector]]]", dimension: int) -> dict[str, Vector]:
    """The vectors that can be searched with, by text; one without a direction is as good as none."""
    found: dict[str, Vector] = {}
    for text, job in done:
        try:
            vector = usable(job.result(), dimension)
        except EmbedderError as error:
            log.warning("query_not_embedded", error=str(error))
            continue
        if vector is None:
            log.warning("query_not_embedded", error="the vector has no direction, or another length than the store's")
        else:
            found[text] = vector
    return found


async def _replace_superseded(asked: _Asked, pool: Pool) -> None:
    """Give each successor the place of what it has replaced, along the chain to the one that holds now."""
    where = MemoryFilter(replace(asked.scope.visibility, superseded=True), types=asked.query.types)
    for _ in range(MOST_STEPS):
        waiting = _waiting(pool, asked.scope.now)
        unknown = tuple(key for key in waiting if key not in pool.entries)
        if not waiting:
            return
        hits = (
            await asked.store.ordered(replace(where, ids=unknown), SortKey.RECENT, limit=len(unknown))
            if unknown
            else []
        )
        for hit in hits:
            pool.put(Entry(hit.memory, hit.vector), SearchKind.SUCCESSOR)
        pool.hand_over(waiting)


def _waiting(pool: Pool, now: datetime) -> dict[str, list[Entry]]:
    """Superseded entries by the id of their successor, as far as that has not taken their place yet."""
    found: dict[str, list[Entry]] = {}
    for entry in pool.entries.values():
        successor = entry.memory.superseded_by
        if successor and not entry.handed_over and is_superseded(entry.memory, now):
            found.setdefault(successor, []).append(entry)
    return found


def _leading(pool: Pool, seeds: Sequence[Hit], vectors: dict[str, Vector], known: set[str]) -> list[Entry]:
    """Important memories that are near the query, though they may not be among its hits."""
    now = pool.setting.now
    entries = (
        _entry_of(hit, pool.setting, vectors)
        for hit in seeds
        if hit.memory.id not in known and not is_superseded(hit.memory, now)
    )
    least = SEED_SHARE * max((entry.relevance for entry in pool.entries.values()), default=0.0)
    return [entry for entry in entries if entry.relevance >= least and pool.passes(entry)]


def _entry_of(hit: Hit, setting: RankingContext, vectors: dict[str, Vector]) -> Entry:
    """A memory that no query found, with the cosine that it has to the nearest of them."""
    known = [] if hit.cosine is None else [hit.cosine]
    others = vectors.values() if len(vectors) > len(known) else ()
    cosines = [cosine for vector in others if (cosine := nearness(vector, hit.vector)) is not None]
    scored = replace(hit, cosine=max([*known, *cosines], default=None))
    (relevance,) = weighted([scored], setting)
    return Entry(hit.memory, hit.vector, scored.cosine, scored.keyword, relevance, relevance)


def _ranked(asked: _Asked, pool: Pool, pinned: Sequence[Hit], degraded: Reason | None) -> Recalled:
    """The order of everything that was found, without what is out of date and without namesakes."""
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
        asked.query.query, (*first, *kept), (*dropped[:MOST_DROPPED], *out.values()), degraded, pool.setting.size
    )


def _people(query: RecallQuery, candidates: Sequence[Candidate]) -> frozenset[tuple[str, str]]:
    """The full names of the query that some candidate knows: other capitalised words in a row are no names."""
    asked = full_names(". ".join((query.query, *query.also)))
    return (
        asked & frozenset(name for candidate in candidates for name in names_in(candidate.memory)) if asked else asked
    )


def _outdated(asked: _Asked, candidates: Sequence[Candidate]) -> list[Dropped]:
    now = asked.scope.now
    return [
        Dropped(candidate, CandidateVerdict.SUPERSEDED, candidate.memory.superseded_by)
        for candidate in candidates
        if is_superseded(candidate.memory, now)
        and not kept_for_history(candidate.memory, asked.query, asked.plan.span, now)
    ]
