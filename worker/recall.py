"""One recall: embed the query, search both legs, fuse, apply the floor."""

import asyncio
from dataclasses import dataclass
from datetime import datetime

from hooks.contract import Reason

from .deadline import Deadline
from .errors import EmbedderError, StoreError
from .models import HybridQuery, MemoryFilter, Recalled, RecallQuery, Vector, Visibility
from .protocols import Embedder, SparseEncoder, StoreEngine
from .ranking import rank
from .settings import InjectionConfig
from .stages import Stages

EMBED_LIMIT = 0.4
"""Seconds after which a query goes on without its vector: keyword search alone is better than a late answer."""


@dataclass(frozen=True, slots=True)
class RecallScope:
    """What a request may search: its tenant, what it may see there, and when "now" is."""

    tenant: str
    visibility: Visibility
    now: datetime


class Recall:
    """Searches the store. `dense_fault` says why vectors must not be used, though there is an embedder."""

    def __init__(
        self,
        engine: StoreEngine,
        sparse: SparseEncoder,
        embedder: Embedder | None,
        dense_fault: Reason | None = None,
    ) -> None:
        self._engine = engine
        self._sparse = sparse
        self._embedder = None if dense_fault else embedder
        self._dense_fault = dense_fault

    async def __call__(
        self, query: RecallQuery, scope: RecallScope, config: InjectionConfig, deadline: Deadline, stages: Stages
    ) -> Recalled:
        """Candidates for `query`, best first. Raises `StoreError` when the store does not answer in time."""
        with stages("embed"):
            dense, degraded = await self._embed(query.query, deadline)
        wanted = HybridQuery(dense, self._sparse.query(query.query), _where(query, scope), config.search_limit)
        store = self._engine.tenant(scope.tenant)
        with stages("search"):
            try:
                async with asyncio.timeout(deadline.remaining()):
                    hits = await store.search(wanted)
            except TimeoutError as error:
                raise StoreError("the search did not end within the deadline") from error
        with stages("rank"):
            profile = self._embedder.profile if self._embedder else None
            candidates, dropped = rank(hits, config, profile, scope.now)
        return Recalled(query.query, candidates, dropped, degraded)

    async def _embed(self, text: str, deadline: Deadline) -> tuple[Vector | None, Reason | None]:
        if self._embedder is None:
            return None, self._dense_fault
        try:
            async with asyncio.timeout(deadline.within(EMBED_LIMIT).remaining()):
                return await self._embedder.embed_query(text), None
        except (TimeoutError, EmbedderError):
            return None, Reason.EMBEDDER_UNAVAILABLE


def _where(query: RecallQuery, scope: RecallScope) -> MemoryFilter:
    return MemoryFilter(
        visibility=scope.visibility,
        types=query.types,
        entities=tuple(entity.casefold() for entity in query.entities),
        since=query.since,
        until=query.until,
    )
