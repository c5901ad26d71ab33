"""Comparison of search results before one generation of a store replaces another."""

from dataclasses import dataclass

from worker.domain.errors import EmbedderError, MeeseeksError, StoreError
from worker.domain.memory import HybridQuery, MemoryFilter, Vector
from worker.ports.state import ReceiptStore
from worker.ports.store import WholeStore

from .copying import PointBuilder

TOP = 10
SAMPLE = 40
"""Memories per tenant that must be found by their own text."""

QUERIES = 50
"""Recent queries per tenant that are repeated."""

MOST_TENANTS = 20
ENOUGH = 5
"""Minimum number of queries for checking the overlap."""

SELF_FOUND = 0.9
ALL = MemoryFilter()


@dataclass(frozen=True, slots=True)
class RecallReport:
    """Result of a check.

    `self_found` is the share of `sampled` memories found by their own text. `overlap` is the mean share of the old top
    ten that is also in the new top ten, over `queries` queries from receipts.
    """

    sampled: int = 0
    self_found: float = 1.0
    queries: int = 0
    overlap: float | None = None

    def demand(self, min_overlap: float) -> None:
        """Raise `StoreError` if the new generation finds too little."""
        if self.self_found < SELF_FOUND:
            raise StoreError(
                f"only {self.self_found:.0%} of {self.sampled} memories are found by their own text; "
                "use --force to continue"
            )
        if self.overlap is not None and self.queries >= ENOUGH and self.overlap < min_overlap:
            raise StoreError(
                f"{self.queries} past queries find only {self.overlap:.0%} of their previous results, less than "
                f"{min_overlap:.0%}; use --force or a lower --min-overlap to continue"
            )


class RecallCheck:
    """Searches both generations, each with its own vectors."""

    def __init__(
        self, old: WholeStore, old_maker: PointBuilder, new: WholeStore, new_maker: PointBuilder, receipts: ReceiptStore
    ) -> None:
        self._old, self._old_maker = old, old_maker
        self._new, self._new_maker = new, new_maker
        self._receipts = receipts

    async def run(self, tenants: list[str]) -> RecallReport:
        sampled, found, overlaps = 0, 0, list[float]()
        for tenant in tenants[:MOST_TENANTS]:
            page = await self._new.tenant(tenant).scroll(MemoryFilter(), limit=SAMPLE)
            for memory in page.memories:
                sampled += 1
                found += memory.id in await _nearest(self._new, self._new_maker, tenant, memory.content)
            overlaps += await self._overlaps(tenant)
        mean = sum(overlaps) / len(overlaps) if overlaps else None
        return RecallReport(sampled, found / sampled if sampled else 1.0, len(overlaps), mean)

    async def _overlaps(self, tenant: str) -> list[float]:
        """Return the share of previous results found again by each past query that had results."""
        found = []
        for query in await self._queries(tenant):
            former = await _top(self._old, self._old_maker, tenant, query)
            if former:
                found.append(len(former & await _top(self._new, self._new_maker, tenant, query)) / len(former))
        return found

    async def _queries(self, tenant: str) -> list[str]:
        try:
            recent = await self._receipts.recent(tenant, QUERIES)
        except MeeseeksError:
            return []
        return list(dict.fromkeys(receipt.query for receipt in recent.receipts if receipt.query.strip()))


async def _top(store: WholeStore, maker: PointBuilder, tenant: str, text: str) -> set[str]:
    """Return ids found by vector and keyword search together."""
    return await _found(store, tenant, HybridQuery(await _vector(maker, text), maker.sparse.query(text), ALL, TOP))


async def _nearest(store: WholeStore, maker: PointBuilder, tenant: str, text: str) -> set[str]:
    """Return ids found by vector search, or by keyword search without vectors."""
    dense = await _vector(maker, text)
    sparse = maker.sparse.query(text) if dense is None else None
    return await _found(store, tenant, HybridQuery(dense, sparse, ALL, TOP))


async def _found(store: WholeStore, tenant: str, query: HybridQuery) -> set[str]:
    if query.dense is None and (query.sparse is None or not query.sparse.indices):
        return set()
    return {hit.memory.id for hit in await store.tenant(tenant).search(query)}


async def _vector(maker: PointBuilder, text: str) -> Vector | None:
    if maker.embedder is None:
        return None
    try:
        return await maker.embedder.embed_query(text)
    except EmbedderError:
        return None
