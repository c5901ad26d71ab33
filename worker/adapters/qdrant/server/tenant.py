"""One tenant's memories on a Qdrant server, with few requests per search and write."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any
from uuid import uuid4

import structlog
from qdrant_client import models

from worker.adapters.qdrant.filters import Equals, conditions
from worker.adapters.qdrant.hits import (
    MOST_ASKED,
    Content,
    RawHit,
    Requests,
    SearchId,
    all_requests,
    best,
    contents_of,
    distinct_ids,
    first_limits,
    hits_per_query,
    memories_by_id,
    page_of,
    states_by_id,
    tied,
    unscored,
)
from worker.adapters.qdrant.payload import (
    CONTENT,
    DENSE,
    MEMORY,
    SPARSE,
    TENANT,
    batched,
    by_point,
    page_start,
    payload_of,
    point_id,
    point_ids,
    point_payload,
    searched,
)
from worker.domain.kinds import SortKey
from worker.domain.memory import Hit, HybridQuery, Memory, MemoryFilter, Replacement, StoredMemory, StoredState
from worker.domain.pages import Page

from .connection import ServerConnection
from .wire import (
    REVISIONS,
    WRITE_ID,
    compile_filter,
    found_in,
    next_revisions,
    order_by,
    revisions_of,
    sparse_model,
    unchanged_point,
)

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
        found, content = await self._found(all_requests(queries, self._requests))
        return hits_per_query(queries, found, content, self._connection.usable)

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
        found, content = await self._connection.read(lambda: self._found({(0, DENSE): request}))
        return unscored(found[0, DENSE], content)

    def _idf(self) -> models.SearchParams | None:
        if not self._connection.tenant_idf:
            return None
        corpus = compile_filter((Equals(TENANT, self._tenant),))
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))

    async def _found(self, requests: Requests) -> tuple[dict[SearchId, list[RawHit]], dict[str, Content]]:
        """Return the best of each search and their content, in one request unless ties go beyond the spare points."""
        asked = first_limits(requests)
        answers = await self._ask(requests, asked, content=True)
        known = {point.point_id: point for point in chain.from_iterable(answers.values())}
        again = tied(requests, {key: [point.score for point in found] for key, found in answers.items()}, asked)
        answers |= await self._ask(again, dict.fromkeys(again, MOST_ASKED))
        chosen = {key: best(found, requests[key]["limit"]) for key, found in answers.items()}
        ids = distinct_ids(chosen.values())
        missing = [key for key in ids if key not in known]
        read = await self._connection.retrieve(missing, dense=self._connection.dense_usable)
        known |= {point.point_id: point for point in map(found_in, read)}
        found = contents_of(known[key] for key in ids if key in known)
        return chosen, {content.point_id: content for content in found}

    async def _ask(
        self, requests: Requests, asked: Mapping[SearchId, int], *, content: bool = False
    ) -> dict[SearchId, list[RawHit]]:
        if not requests:
            return {}
        keys = list(CONTENT) if content else False
        vectors = [DENSE] if content and self._connection.dense_usable else False
        batch = [
            models.QueryRequest(**{**request, "limit": asked[key]}, with_payload=keys, with_vector=vectors)
            for key, request in requests.items()
        ]
        answers = await self._connection.client.query_batch_points(self._connection.collection, batch)
        return {key: list(map(found_in, answer.points)) for key, answer in zip(requests, answers, strict=True)}

    async def get(self, ids: Sequence[str]) -> list[Memory]:
        points = point_ids(self._tenant, ids)
        records = await self._connection.read(lambda: self._connection.retrieve(points))
        return memories_by_id(map(found_in, records), points)

    async def put(self, memories: Sequence[StoredMemory]) -> None:
        for batch in batched(by_point(self._tenant, memories).items(), BATCH):
            await self._connection.write(partial(self._put, batch))

    async def _put(self, items: list[tuple[str, StoredMemory]]) -> None:
        points = [self._point(key, stored) for key, stored in items]
        await self._connection.client.upsert(self._connection.collection, points, wait=True)

    async def states(self, ids: Sequence[str]) -> dict[str, StoredState]:
        points = {point_id(self._tenant, key): key for key in ids}
        records = await self._connection.read(lambda: self._connection.retrieve(list(points), REVISIONS))
        return states_by_id(map(found_in, records), points, revisions_of)

    async def replace(self, changes: Sequence[Replacement]) -> list[str]:
        points = {point_id(self._tenant, change.memory.id): change for change in changes}
        refused: list[str] = []
        for batch in batched(points.items(), BATCH):
            write = uuid4().hex[:WRITE_ID]
            refused += await self._connection.write(partial(self._replace, batch, write))
        return [points[key].memory.id for key in refused]

    async def _replace(self, items: list[tuple[str, Replacement]], write: str) -> list[str]:
        """Send one conditional operation per change, then look which of them the server has made.

        Its answer does not say. Every point lists its last writes, so a change is found even if others followed.
        """
        client, collection = self._connection.client, self._connection.collection
        operations = [self._operation(key, change, write) for key, change in items]
        await client.batch_update_points(collection, operations, wait=True, ordering=models.WriteOrdering.MEDIUM)
        found = map(found_in, await self._connection.retrieve([key for key, _ in items], REVISIONS))
        held = {point.point_id: revisions_of(point).split() for point in found}
        created = [key for key, change in items if change.expected is None and key not in held]  # and deleted again
        return [key for key, _ in items if write not in held.get(key, ()) and key not in created]

    def _operation(self, key: str, change: Replacement, write: str) -> models.UpdateOperation:
        revisions = {REVISIONS: next_revisions(change.expected, write)}
        if isinstance(change.new, Memory):
            payload = payload_of(self._tenant, change.new) | revisions
            unchanged = unchanged_point(key, change.expected)
            return models.SetPayloadOperation(set_payload=models.SetPayload(payload=payload, filter=unchanged))
        point = self._point(key, change.new)
        point.payload = (point.payload or {}) | revisions
        if change.expected is None:
            only = models.PointsList(points=[point], update_mode=models.UpdateMode.INSERT_ONLY)
        else:
            unchanged = unchanged_point(key, change.expected)
            only = models.PointsList(points=[point], update_filter=unchanged, update_mode=models.UpdateMode.UPDATE_ONLY)
        return models.UpsertOperation(upsert=only)

    def _point(self, key: str, stored: StoredMemory) -> models.PointStruct:
        dense = self._connection.usable(searched(stored))
        if dense is None and stored.dense is not None and self._connection.dense_usable:
            logger.warning("dense_vector_unusable", point_id=key, length=len(stored.dense))
        vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
        if stored.sparse.indices:
            vectors[SPARSE] = sparse_model(stored.sparse)
        return models.PointStruct(id=key, vector=vectors, payload=point_payload(self._tenant, stored))

    async def delete(self, ids: Sequence[str]) -> int:
        connection, points = self._connection, point_ids(self._tenant, ids)
        existing = await connection.read(lambda: connection.retrieve(points, payload=False))
        if existing:
            selector = models.PointIdsList(points=[record.id for record in existing])
            await connection.write(lambda: connection.client.delete(connection.collection, selector, wait=True))
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
