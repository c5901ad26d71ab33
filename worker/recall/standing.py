"""Where one memory stands among all that a request may see, for the question why it did not come."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from worker.domain.deadline import Deadline
from worker.domain.errors import EmbedderError, StoreLate
from worker.domain.memory import EmbedderProfile, Hit, HybridQuery, MemoryFilter, Vector, Visibility
from worker.domain.vectors import usable
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import MemoryStore, StoreEngine

LOOKED_AT = 1_000
"""Best memories of each search among which a place is looked for."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Scores of a memory for a query, and its places in the searches by meaning and by words, from 1.

    A place is `None` if more than `LOOKED_AT` are better or the search does not find it at all. `least_cosine` is what
    the embedder's thresholds ask of a candidate.
    """

    cosine: float | None = None
    keyword: float | None = None
    meaning_place: int | None = None
    words_place: int | None = None
    least_cosine: float | None = None


@dataclass(frozen=True, slots=True)
class Standings:
    """Compares a memory with the others. `embedder` and `profile` are `None` if vectors are not used."""

    engine: StoreEngine
    sparse: SparseEncoder
    embedder: Embedder | None
    profile: EmbedderProfile | None

    async def of(self, memory_id: str, query: str, tenant: str, visibility: Visibility, deadline: Deadline) -> Standing:
        """Return where a memory stands for a query. Raise `StoreError`."""
        try:
            async with asyncio.timeout(deadline.remaining()):
                return await self._of(memory_id, query, self.engine.tenant(tenant), visibility)
        except TimeoutError as error:
            raise StoreLate("the search did not end within the deadline") from error

    async def _of(self, memory_id: str, query: str, store: MemoryStore, visibility: Visibility) -> Standing:
        dense, sparse, everything = await self._vector(query), self.sparse.query(query), MemoryFilter(visibility)
        own = await _hits(store, HybridQuery(dense, sparse, MemoryFilter(visibility, ids=(memory_id,)), 1))
        hit = own[0] if own else None
        near = await _hits(store, HybridQuery(dense, None, everything, LOOKED_AT)) if dense else []
        named = await _hits(store, HybridQuery(None, sparse, everything, LOOKED_AT))
        return Standing(
            cosine=hit.cosine if hit else None,
            keyword=hit.keyword if hit else None,
            meaning_place=_place(memory_id, near),
            words_place=_place(memory_id, named),
            least_cosine=self.profile.candidate_threshold if self.profile else None,
        )

    async def _vector(self, text: str) -> Vector | None:
        if self.embedder is None or not text.strip():
            return None
        try:
            return usable(await self.embedder.embed_query(text), self.embedder.profile.dimension)
        except EmbedderError:
            return None


async def _hits(store: MemoryStore, query: HybridQuery) -> list[Hit]:
    askable = query.dense is not None or (query.sparse is not None and query.sparse.indices)
    return await store.search(query) if askable else []


def _place(memory_id: str, hits: Sequence[Hit]) -> int | None:
    return next((number for number, hit in enumerate(hits, 1) if hit.memory.id == memory_id), None)
