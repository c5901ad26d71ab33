"""One tenant's memories on a Qdrant server, with few requests per search and write."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import structlog
from qdrant_client import models

from worker.adapters.qdrant.filters import Equals, conditions
from worker.adapters.qdrant.hits import (
    MOST_ASKED,
    RawHit,
    Requests,
    SearchId,
    all_requests,
    best,
    filled,
    first_limits,
    hits_per_query,
    memories_by_id,
    missing,
    page_of,
    tied,
    unscored,
)
from worker.adapters.qdrant.payload import (
    DENSE,
    MEMORY,
    SPARSE,
    TENANT,
    by_point,
    page_start,
    payload_of,
    point_id,
    point_ids,
)
from worker.domain.kinds import SortKey
from worker.domain.memory import Hit, HybridQuery, Memory, MemoryFilter, Page, StoredMemory

from .connection import ServerConnection
from .wire import compile_filter, found_in, order_by, sparse_model

BATCH = 128

logger = structlog.get_logger()


class ServerTenant:
    """A `MemoryStore` with one tenant's memories on a server."""

    def __init__(self, connection: ServerConnection, tenant: str) -> None:
        self._connection = connection
        self._tenant = tenant

    async def search(self, query: HybridQuery) -> list[Hit]:
        return (await self.search_many([query]))[0]

    async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        return await self._connection.read(lambda: self._search(queries))

    async def _search(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        found = await self._found(all_requests(queries, self._requests))
        return hits_per_query(queries, found, self._connection.usable)

    def _requests(self, place: int, query: HybridQuery) -> Requests:
        dense = self._connection.usable(query.dense)
        common = {"filter": compile_filter(conditions(self._tenant, query.where)), "limit": query.limit}
        requests: Requests = {}
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
        return unscored(found[0, DENSE])

    def _idf(self) -> models.SearchParams | None:
        if not self._connection.tenant_idf:
            return None
        corpus = compile_filter((Equals(TENANT, self._tenant),))
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))

    async def _found(self, requests: Requests) -> dict[SearchId, list[RawHit]]:
        """Return the best of each search, in one request unless ties go beyond the spare points."""
        asked = first_limits(requests)
        answers = await self._ask(requests, asked, content=True)
        known = list(chain.from_iterable(answers.values()))
        again = tied(requests, {key: [point.score for point in found] for key, found in answers.items()}, asked)
        answers |= await self._ask(again, dict.fromkeys(again, MOST_ASKED))
        chosen = {key: best(found, requests[key]["limit"]) for key, found in answers.items()}
        wanted = missing(chain.from_iterable(chosen.values()), known)
        known += map(found_in, await self._connection.retrieve(wanted, dense=self._connection.dense_usable))
        content = {point.point_id: point for point in known}
        return {key: filled(found, content) for key, found in chosen.items()}

    async def _ask(
        self, requests: Requests, asked: Mapping[SearchId, int], *, content: bool = False
    ) -> dict[SearchId, list[RawHit]]:
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
        points = point_ids(self._tenant, ids)
        records = await self._connection.read(lambda: self._connection.retrieve(points))
        return memories_by_id(map(found_in, records), points)

    async def put(self, memories: Sequence[StoredMemory]) -> None:
        items = list(by_point(self._tenant, memories).items())
        for start in range(0, len(items), BATCH):
            await self._connection.write(partial(self._put, items[start : start + BATCH]))

    async def _put(self, items: list[tuple[str, StoredMemory]]) -> None:
        points = [self._point(key, stored) for key, stored in items]
        await self._connection.client.upsert(self._connection.collection, points, wait=True)

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
        existing = await self._existing(point_ids(self._tenant, ids))
        if existing:
            selector = models.PointIdsList(points=[*existing])
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
        return page_of(map(found_in, records), following)

    async def count(self, where: MemoryFilter | None = None) -> int:
        wanted = compile_filter(conditions(self._tenant, where))
        client, connection = self._connection.client, self._connection
        return (await connection.read(lambda: client.count(connection.collection, wanted, exact=True))).count
