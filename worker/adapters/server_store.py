"""The memory store on a Qdrant server or cluster, reached by URL over REST; any number of processes may share it."""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Self, TypeVar

import httpx
import structlog
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from worker.errors import StoreError
from worker.hits import MOST_ASKED, SPARE, Found, best, filled, listed, merge, missing, readable, settled, usable
from worker.models import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Listing,
    Memory,
    MemoryFilter,
    Page,
    StoredMemory,
    StoreHealth,
    Vector,
)
from worker.payload import (
    DENSE,
    KEYWORD_KEYS,
    MEMORY,
    NUMBER_KEYS,
    SPARSE,
    TENANT,
    UNKNOWN_EMBEDDER,
    Equals,
    Fitness,
    StoreRecord,
    by_point,
    conditions,
    fitness,
    page_start,
    payload_of,
    point_id,
    tenant_name,
)

from .server_wire import brief, compile_filter, dense_params, found_in, sparse_model, transient, version_of

READ_TIMEOUT = 1.0
WRITE_TIMEOUT = 10.0
BATCH = 128

TENANT_IDF_SINCE = (1, 19)
"""First server that can weigh terms by the tenant's own memories; older ones weigh by the whole collection."""

CONFLICT = 409

T = TypeVar("T")
_Requests = dict[str, dict[str, Any]]

logger = structlog.get_logger()


class ServerStore:
    """A `StoreEngine` on one collection. It connects, and makes the collection where needed, on its first use.

    Every call ends within `read_timeout` or `write_timeout` (seconds), retries included, or raises `StoreError`.
    """

    def __init__(
        self,
        client: AsyncQdrantClient,
        *,
        collection: str,
        profile: EmbedderProfile | None,
        bm25_hash: str,
        read_timeout: float = READ_TIMEOUT,
        write_timeout: float = WRITE_TIMEOUT,
    ) -> None:
        self.client = client
        self.collection = collection
        self._profile = profile
        self._bm25_hash = bm25_hash
        self._read_timeout = read_timeout
        self._write_timeout = write_timeout
        self._preparing = asyncio.Lock()
        self._fitness: Fitness | None = None
        self.tenant_idf = False

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        api_key: str | None = None,
        collection: str,
        profile: EmbedderProfile | None,
        bm25_hash: str,
        read_timeout: float = READ_TIMEOUT,
        write_timeout: float = WRITE_TIMEOUT,
    ) -> Self:
        """A store on the server at `url`; nothing is sent yet. Use it in one event loop and close it."""
        client = AsyncQdrantClient(
            url=url,
            api_key=api_key,
            timeout=math.ceil(write_timeout),
            check_compatibility=False,
            limits=httpx.Limits(max_connections=32, max_keepalive_connections=16, keepalive_expiry=5.0),
        )
        return cls(
            client,
            collection=collection,
            profile=profile,
            bm25_hash=bm25_hash,
            read_timeout=read_timeout,
            write_timeout=write_timeout,
        )

    def tenant(self, name: str) -> "ServerTenant":
        return ServerTenant(self, tenant_name(name))

    async def health(self) -> StoreHealth:
        async def ask() -> tuple[int, int]:
            points = await self.client.count(self.collection, exact=True)
            if self._profile is None:
                return points.count, 0
            bare = models.Filter(must_not=[models.HasVectorCondition(has_vector=DENSE)])
            return points.count, (await self.client.count(self.collection, count_filter=bare, exact=True)).count

        points, bare = await self.read(ask)
        fit = self.fitness
        notes = list(fit.notes)
        if bare:
            notes.append(f"{bare} memories have no dense vector: they are found by their words alone")
        return StoreHealth("server", points, fit.dense_usable, fit.fault, tuple(notes))

    async def record(self) -> StoreRecord:
        """The recipes that the stored vectors were made by."""
        info = await self.read(lambda: self.client.get_collection(self.collection))
        return StoreRecord.parse(info.config.metadata) or StoreRecord(UNKNOWN_EMBEDDER, "")

    async def listing(self, *, limit: int, cursor: str | None = None, vectors: bool = False) -> Listing:
        """A page of the memories of every tenant; with their dense vectors if `vectors`."""
        start = page_start(cursor)
        dense = [DENSE] if vectors else False
        records, following = await self.read(
            lambda: self.client.scroll(
                self.collection, limit=limit, offset=start, with_payload=[MEMORY, TENANT], with_vectors=dense
            )
        )
        entries = [listed(found.point_id, found.payload, found.vector) for found in map(found_in, records)]
        kept = tuple(entry for entry in entries if entry is not None)
        return Listing(kept, None if following is None else str(following), len(entries) - len(kept))

    async def flush(self) -> None:
        """Nothing to do: writes are acknowledged when the server has them."""

    async def aclose(self) -> None:
        await self.client.close()

    @property
    def fitness(self) -> Fitness:
        """Whether the collection fits the configured recipes; dense vectors are unusable until that is known."""
        return self._fitness or Fitness(dense_usable=False)

    @property
    def dense_usable(self) -> bool:
        return self.fitness.dense_usable

    def usable(self, vector: Vector | None) -> Vector | None:
        """`vector` where it may meet the stored ones."""
        if self._profile is None or not self.dense_usable:
            return None
        return usable(vector, self._profile.dimension)

    async def retrieve(self, points: list[str], *, dense: bool = False) -> list[models.Record]:
        """Points by id, with their memory and, if `dense`, their vector; a single attempt."""
        if not points:
            return []
        vectors = [DENSE] if dense else False
        return await self.client.retrieve(self.collection, points, with_payload=[MEMORY], with_vectors=vectors)

    async def read(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask something of the server; once more after 30-50 ms where that may help."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(transient), stop=stop_after_attempt(2), wait=wait_random(0.03, 0.05), reraise=True
        )
        return await self._run(ask, retrying, self._read_timeout)

    async def write(self, do: Callable[[], Awaitable[T]]) -> T:
        """Change something on the server, in up to five attempts; what is written must be the same when repeated."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(transient),
            stop=stop_after_attempt(5),
            wait=wait_exponential(multiplier=0.1, max=2.0) + wait_random(0.0, 0.1),
            reraise=True,
        )
        return await self._run(do, retrying, self._write_timeout)

    async def _run(self, call: Callable[[], Awaitable[T]], retrying: AsyncRetrying, seconds: float) -> T:
        async def prepared() -> T:
            await self._prepare()
            return await call()

        try:
            async with asyncio.timeout(seconds):
                return await retrying(prepared)
        except TimeoutError as error:
            raise StoreError(f"the Qdrant server did not answer within {seconds:g} s") from error
        except (ApiException, QdrantException, httpx.HTTPError, ValueError) as error:
            raise StoreError(f"the Qdrant server failed: {brief(error)}") from error

    async def _prepare(self) -> None:
        """Make the collection and its indexes where they are missing, and learn what it was made by."""
        if self._fitness is not None:
            return
        async with self._preparing:
            if self._fitness is not None:
                return
            if not await self.client.collection_exists(self.collection):
                await self._create()
            info = await self.client.get_collection(self.collection)
            await self._create_indexes(set(info.payload_schema))
            self.tenant_idf = version_of((await self.client.info()).version) >= TENANT_IDF_SINCE
            record = StoreRecord.parse(info.config.metadata) or StoreRecord(UNKNOWN_EMBEDDER, "")
            fit = fitness(record, self._profile, self._bm25_hash)
            if fit.fault:
                logger.error("store_recipe_mismatch", collection=self.collection, fault=fit.fault)
            self._fitness = fit

    async def _create(self) -> None:
        """One collection for all tenants, with a graph per tenant and none over all of them."""
        profile = self._profile
        dense = {} if profile is None else {DENSE: dense_params(profile.dimension)}
        try:
            await self.client.create_collection(
                self.collection,
                vectors_config=dense,
                sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                hnsw_config=models.HnswConfigDiff(m=0, payload_m=16),
                metadata=StoreRecord.of(profile, self._bm25_hash).dump(),
            )
        except UnexpectedResponse as error:
            if error.status_code != CONFLICT:
                raise

    async def _create_indexes(self, existing: set[str]) -> None:
        for key in KEYWORD_KEYS:
            if key not in existing:
                kind = models.KeywordIndexType.KEYWORD
                schema = models.KeywordIndexParams(type=kind, is_tenant=True if key == TENANT else None)
                await self.client.create_payload_index(self.collection, key, schema, wait=True)
        for key in NUMBER_KEYS:
            if key not in existing:
                numbers = models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True)
                await self.client.create_payload_index(self.collection, key, numbers, wait=True)


class ServerTenant:
    """A `MemoryStore`: one tenant's memories on a server."""

    def __init__(self, store: ServerStore, tenant: str) -> None:
        self._store = store
        self._tenant = tenant

    async def search(self, query: HybridQuery) -> list[Hit]:
        return await self._store.read(lambda: self._search(query))

    async def _search(self, query: HybridQuery) -> list[Hit]:
        dense = self._store.usable(query.dense)
        requests: _Requests = {}
        if dense is not None:
            requests[DENSE] = {"query": list(dense), "using": DENSE}
        if query.sparse is not None and query.sparse.indices:
            requests[SPARSE] = {"query": sparse_model(query.sparse), "using": SPARSE, "params": self._idf()}
        if not requests:
            raise StoreError("neither leg of the search can be used: there are no terms and no usable dense vector")
        legs = await self._legs(requests, compile_filter(conditions(self._tenant, query.where)), query.limit)
        return merge(dense, legs.get(DENSE, []), [point for point in legs.get(SPARSE, []) if point.score > 0.0])

    def _idf(self) -> models.SearchParams | None:
        if not self._store.tenant_idf:
            return None
        corpus = compile_filter((Equals(TENANT, self._tenant),))
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))

    async def _legs(self, requests: _Requests, where: models.Filter, limit: int) -> dict[str, list[Found]]:
        asked = min(MOST_ASKED, limit + SPARE)
        content: dict[str, Any] = {
            "with_payload": [MEMORY],
            "with_vector": [DENSE] if self._store.dense_usable else False,
        }
        legs = await self._ask(requests, {"filter": where, "limit": asked, **content})
        tied = {name: requests[name] for name, found in legs.items() if not settled(found, limit, asked)}
        for name, found in (await self._ask(tied, {"filter": where, "limit": MOST_ASKED})).items():
            chosen = best(found, limit)
            records = await self._store.retrieve(missing(chosen, legs[name]), dense=self._store.dense_usable)
            legs[name] = filled(chosen, [*legs[name], *map(found_in, records)])
        return {name: best(found, limit) for name, found in legs.items()}

    async def _ask(self, requests: _Requests, wanted: dict[str, Any]) -> dict[str, list[Found]]:
        if not requests:
            return {}
        batch = [models.QueryRequest(**request, **wanted) for request in requests.values()]
        answers = await self._store.client.query_batch_points(self._store.collection, batch)
        return {name: list(map(found_in, answer.points)) for name, answer in zip(requests, answers, strict=True)}

    async def get(self, ids: Sequence[str]) -> list[Memory]:
        points = self._points(ids)
        records = await self._store.read(lambda: self._store.retrieve(points))
        found = {str(record.id): readable(str(record.id), record.payload) for record in records}
        return [memory for memory in map(found.get, points) if memory is not None]

    async def put(self, memories: Sequence[StoredMemory]) -> None:
        items = list(by_point(self._tenant, memories).items())
        for start in range(0, len(items), BATCH):
            await self._put(items[start : start + BATCH])

    async def _put(self, items: list[tuple[str, StoredMemory]]) -> None:
        async def do() -> None:
            points = [self._point(key, stored) for key, stored in items]
            await self._store.client.upsert(self._store.collection, points, wait=True)

        await self._store.write(do)

    async def amend(self, memories: Sequence[Memory]) -> None:
        latest = {point_id(self._tenant, memory.id): memory for memory in memories}
        existing = await self._existing(list(latest))
        payloads = [(key, payload_of(self._tenant, latest[key])) for key in existing]
        client, collection = self._store.client, self._store.collection
        for start in range(0, len(payloads), BATCH):
            batch = [
                models.OverwritePayloadOperation(overwrite_payload=models.SetPayload(payload=payload, points=[key]))
                for key, payload in payloads[start : start + BATCH]
            ]
            await self._store.write(partial(client.batch_update_points, collection, batch, wait=True))

    async def _existing(self, points: list[str]) -> list[str]:
        """Those of these point ids that there are."""
        client, collection = self._store.client, self._store.collection
        records = await self._store.read(
            lambda: client.retrieve(collection, points, with_payload=False, with_vectors=False)
        )
        return [str(record.id) for record in records]

    def _point(self, key: str, stored: StoredMemory) -> models.PointStruct:
        dense = self._store.usable(stored.dense)
        if dense is None and stored.dense is not None and self._store.dense_usable:
            logger.warning("dense_vector_unusable", point_id=key, length=len(stored.dense))
        vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
        if stored.sparse.indices:
            vectors[SPARSE] = sparse_model(stored.sparse)
        return models.PointStruct(id=key, vector=vectors, payload=payload_of(self._tenant, stored.memory))

    async def delete(self, ids: Sequence[str]) -> int:
        existing = await self._existing(self._points(ids))
        if existing:
            selector = models.PointIdsList(points=list(existing))
            client, collection = self._store.client, self._store.collection
            await self._store.write(lambda: client.delete(collection, selector, wait=True))
        return len(existing)

    async def scroll(self, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        wanted, start = compile_filter(conditions(self._tenant, where)), page_start(cursor)
        records, following = await self._store.read(
            lambda: self._store.client.scroll(
                self._store.collection, wanted, limit=limit, offset=start, with_payload=[MEMORY]
            )
        )
        memories = [readable(str(record.id), record.payload) for record in records]
        return Page(
            tuple(memory for memory in memories if memory is not None), None if following is None else str(following)
        )

    async def count(self, where: MemoryFilter | None = None) -> int:
        wanted = compile_filter(conditions(self._tenant, where))
        client = self._store.client
        return (await self._store.read(lambda: client.count(self._store.collection, wanted, exact=True))).count

    def _points(self, ids: Sequence[str]) -> list[str]:
        return list(dict.fromkeys(point_id(self._tenant, key) for key in ids))
