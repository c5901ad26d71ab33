"""One tenant's memories on a Qdrant server: its searches and writes, each in as few requests as can be."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import structlog
from qdrant_client import models

from worker.adapters.qdrant.hits import (
    MOST_ASKED,
    SPARE,
    RawHit,
    SearchResults,
    best,
    check_askable,
    filled,
    missing,
    readable,
    settled,
    unscored,
)
from worker.adapters.qdrant.payload import (
    DENSE,
    MEMORY,
    SPARSE,
    TENANT,
    Equals,
    by_point,
    conditions,
    page_start,
    payload_of,
    point_id,
)
from worker.domain.kinds import SortKey
from worker.domain.memory import Hit, HybridQuery, Memory, MemoryFilter, Page, StoredMemory

from .connection import ServerConnection
from .wire import compile_filter, found_in, order_by, sparse_model

BATCH = 128

_Key = tuple[int, str]
"""The place of a query among those of a batch, and its leg."""

_Requests = dict[_Key, dict[str, Any]]

logger = structlog.get_logger()


class ServerTenant:
    """A `MemoryStore`: one tenant's memories on a server."""

    def __init__(self, connection: ServerConnection, tenant: str) -> None:
        self._connection = connection
        self._tenant = tenant

    async def search(self, query: HybridQuery) -> list[Hit]:
        return (await self.search_many([query]))[0]

    async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        return await self._connection.read(lambda: self._search(queries))

    async def _search(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        requests: _Requests = {}
        for place, query in enumerate(queries):
            requests |= self._requests(place, query)
        check_askable(requests)
        found = await self._found(requests)
        legs = (
            SearchResults(
                self._connection.usable(query.dense), found.get((place, DENSE), []), found.get((place, SPARSE), [])
            )
            for place, query in enumerate(queries)
        )
        return [search_kind.hits() for search_kind in legs]

    def _requests(self, place: int, query: HybridQuery) -> _Requests:
        """The legs of the query at `place`; none for a query without terms and without a usable vector."""
        dense = self._connection.usable(query.dense)
        common = {"filter": compile_filter(conditions(self._tenant, query.where)), "limit": query.limit}
        requests: _Requests = {}
        if dense is not None:
            requests[place, DENSE] = {"query": list(dense), "using": DENSE, **common}
        if query.sparse is not None and query.sparse.indices:
            sparse = sparse_model(query.sparse)
            requests[place, SPARSE] = {"query": sparse, "using": SPARSE, "params": self._idf(), **common}
        return requests

    async def ordered(self, where: MemoryFilter, by: SortKey, *, limit: int) -> list[Hit]:
        wanted = compile_filter(conditions(self._tenant, where))
        request = {"query": order_by(by), "filter": wanted, "limit": limit}
        found = await self._connection.read(lambda: self._found({(0, DENSE): request}))
        hits = map(unscored, found[0, DENSE])
        return [hit for hit in hits if hit is not None]

    def _idf(self) -> models.SearchParams | None:
        if not self._connection.tenant_idf:
            return None
        corpus = compile_filter((Equals(TENANT, self._tenant),))
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))

    async def _found(self, requests: _Requests) -> dict[_Key, list[RawHit]]:
        """The best of each leg, in one request unless scores are tied beyond the spare points."""
        asked = {key: min(MOST_ASKED, request["limit"] + SPARE) for key, request in requests.items()}
        legs = await self._ask(requests, asked, content=True)
        tied = {
            key: requests[key]
            for key, found in legs.items()
            if not settled([point.score for point in found], requests[key]["limit"], asked[key])
        }
        chosen = {key: best(found, requests[key]["limit"]) for key, found in legs.items()}
        more = await self._ask(tied, dict.fromkeys(tied, MOST_ASKED))
        chosen |= {key: best(found, requests[key]["limit"]) for key, found in more.items()}
        known = list(chain.from_iterable(legs.values()))
        wanted = missing(chain.from_iterable(chosen.values()), known)
        known += map(found_in, await self._connection.retrieve(wanted, dense=self._connection.dense_usable))
        content = {point.point_id: point for point in known}
        return {key: filled(found, content) for key, found in chosen.items()}

    async def _ask(
        self, requests: _Requests, asked: Mapping[_Key, int], *, content: bool = False
    ) -> dict[_Key, list[RawHit]]:
        if not requests:
            return {}
        vectors = [DENSE] if content and self._connection.dense_usable else False
        batch = [
            models.QueryRequest(
                **{**request, "limit": asked[key]}, with_payload=[MEMORY] if content else False, with_vector=vectors
            )
            for key, request in requests.items()
        ]
        answers = await self._connection.client.query_batch_points(self._connection.collection, batch)
        return {key: list(map(found_in, answer.points)) for key, answer in zip(requests, answers, strict=True)}

    async def get(self, ids: Sequence[str]) -> list[Memory]:
        points = self._points(ids)
        records = await self._connection.read(lambda: self._connection.retrieve(points))
        found = {str(record.id): readable(str(record.id), record.payload) for record in records}
        return [memory for memory in map(found.get, points) if memory is not None]

    async def put(self, memories: Sequence[StoredMemory]) -> None:
        items = list(by_point(self._tenant, memories).items())
        for start in range(0, len(items), BATCH):
            await self._put(items[start : start + BATCH])

    async def _put(self, items: list[tuple[str, StoredMemory]]) -> None:
        async def do() -> None:
            points = [self._point(key, stored) for key, stored in items]
            await self._connection.client.upsert(self._connection.collection, points, wait=True)

        await self._connection.write(do)

    async def amend(self, memories: Sequence[Memory]) -> None:
        latest = {point_id(self._tenant, memory.id): memory for memory in memories}
        existing = await self._existing(list(latest))
        payloads = [(key, payload_of(self._tenant, latest[key])) for key in existing]
        client, collection = self._connection.client, self._connection.collection
        for start in range(0, len(payloads), BATCH):
            batch = [
                models.OverwritePayloadOperation(overwrite_payload=models.SetPayload(payload=payload, points=[key]))
                for key, payload in payloads[start : start + BATCH]
            ]
            await self._connection.write(partial(client.batch_update_points, collection, batch, wait=True))

    async def _existing(self, points: list[str]) -> list[str]:
        """Those of these point ids that there are."""
        client, collection = self._connection.client, self._connection.collection
        records = await self._connection.read(
            lambda: client.retrieve(collection, points, with_payload=False, with_vectors=False)
        )
        return [str(record.id) for record in records]

    def _point(self, key: str, stored: StoredMemory) -> models.PointStruct:
        dense = self._connection.usable(stored.dense)
        if dense is None and stored.dense is not None and self._connection.dense_usable:
            logger.warning("dense_vector_unusable", point_id=key, length=len(stored.dense))
        vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
        if stored.sparse.indices:
            vectors[SPARSE] = sparse_model(stored.sparse)
        return models.PointStruct(id=key, vector=vectors, payload=payload_of(self._tenant, stored.memory))

    async def delete(self, ids: Sequence[str]) -> int:
        existing = await self._existing(self._points(ids))
        if existing:
            selector = models.PointIdsList(points=list(existing))
            client, collection = self._connection.client, self._connection.collection
            await self._connection.write(lambda: client.delete(collection, selector, wait=True))
        return len(existing)

    async def scroll(self, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        wanted, start = compile_filter(conditions(self._tenant, where)), page_start(cursor)
        records, following = await self._connection.read(
            lambda: self._connection.client.scroll(
                self._connection.collection, wanted, limit=limit, offset=start, with_payload=[MEMORY]
            )
        )
        memories = [readable(str(record.id), record.payload) for record in records]
        return Page(
            tuple(memory for memory in memories if memory is not None), None if following is None else str(following)
        )

    async def count(self, where: MemoryFilter | None = None) -> int:
        wanted = compile_filter(conditions(self._tenant, where))
        client = self._connection.client
        return (
            await self._connection.read(lambda: client.count(self._connection.collection, wanted, exact=True))
        ).count

    def _points(self, ids: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(point_id(self._tenant, key) for key in ids))
