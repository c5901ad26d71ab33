"""The memory store on a Qdrant server or cluster, reached by URL over REST; any number of processes may share it."""

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self, TypeVar, assert_never

import httpx
import structlog
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse
from tenacity import (
    AsyncRetrying,
    retry_if_exception,
    stop_after_attempt,
    wait_exponential,
    wait_random,
)

from worker.errors import StoreError
from worker.hits import MOST_ASKED, SPARE, Found, best, merge, readable, settled, usable
from worker.models import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Memory,
    MemoryFilter,
    Page,
    SparseVector,
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
    Above,
    AnyOf,
    AtLeast,
    AtMost,
    Condition,
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

READ_TIMEOUT = 1.0
WRITE_TIMEOUT = 10.0
BATCH = 128

TENANT_IDF_SINCE = (1, 19)
"""First server that can weigh terms by the tenant's own memories; older ones weigh by the whole collection."""

RETRIED = frozenset({429, 500, 502, 503, 504})
CONFLICT = 409

T = TypeVar("T")
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

    async def flush(self) -> None:
        """Nothing to do: writes are acknowledged when the server has them."""

    async def aclose(self) -> None:
        await self.client.close()

    @property
    def fitness(self) -> Fitness:
        """Whether the collection fits the configured recipes; dense vectors are unusable until that is known."""
        return self._fitness or Fitness(dense_usable=False)

    def usable(self, vector: Vector | None) -> Vector | None:
        """`vector` where it may meet the stored ones."""
        if self._profile is None or not self.fitness.dense_usable:
            return None
        return usable(vector, self._profile.dimension)

    async def read(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask something of the server; once more after 30-50 ms where that may help."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(_transient), stop=stop_after_attempt(2), wait=wait_random(0.03, 0.05), reraise=True
        )
        return await self._run(ask, retrying, self._read_timeout)

    async def write(self, do: Callable[[], Awaitable[T]]) -> T:
        """Change something on the server, in up to five attempts; what is written must be the same when repeated."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(_transient),
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
            raise StoreError(f"the Qdrant server failed: {_brief(error)}") from error

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
            self.tenant_idf = _version((await self.client.info()).version) >= TENANT_IDF_SINCE
            record = StoreRecord.parse(info.config.metadata) or StoreRecord(UNKNOWN_EMBEDDER, "")
            fit = fitness(record, self._profile, self._bm25_hash)
            if fit.fault:
                logger.error("store_recipe_mismatch", collection=self.collection, fault=fit.fault)
            self._fitness = fit

    async def _create(self) -> None:
        """One collection for all tenants, with a graph per tenant and none over all of them."""
        profile = self._profile
        dense = {} if profile is None else {DENSE: _dense_params(profile.dimension)}
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
        requests: dict[str, dict[str, Any]] = {}
        if dense is not None:
            requests[DENSE] = {"query": list(dense), "using": DENSE}
        if query.sparse is not None and query.sparse.indices:
            requests[SPARSE] = {"query": _sparse(query.sparse), "using": SPARSE, "params": self._idf()}
        if not requests:
            raise StoreError("neither leg of the search can be used: there are no terms and no usable dense vector")
        legs = await self._legs(requests, compile_filter(conditions(self._tenant, query.where)), query.limit)
        return merge(dense, legs.get(DENSE, []), [point for point in legs.get(SPARSE, []) if point.score > 0.0])

    def _idf(self) -> models.SearchParams | None:
        if not self._store.tenant_idf:
            return None
        corpus = compile_filter((Equals(TENANT, self._tenant),))
        return models.SearchParams(idf=models.IdfCorpusParams(corpus=corpus))

    async def _legs(
        self, requests: dict[str, dict[str, Any]], where: models.Filter, limit: int
    ) -> dict[str, list[Found]]:
        legs: dict[str, list[Found]] = {}
        asked = min(MOST_ASKED, limit + SPARE)
        open_legs = requests
        vectors = [DENSE] if self._store.fitness.dense_usable else False
        while open_legs:
            wanted: dict[str, Any] = {"limit": asked, "filter": where, "with_payload": [MEMORY], "with_vector": vectors}
            batch = [models.QueryRequest(**request, **wanted) for request in open_legs.values()]
            answers = await self._store.client.query_batch_points(self._store.collection, batch)
            legs.update(
                {name: list(map(_found, answer.points)) for name, answer in zip(open_legs, answers, strict=True)}
            )
            open_legs = {name: open_legs[name] for name in open_legs if not settled(legs[name], limit, asked)}
            asked = min(MOST_ASKED, asked * 4)
        return {name: best(found, limit) for name, found in legs.items()}

    async def get(self, ids: Sequence[str]) -> list[Memory]:
        points = self._points(ids)
        records = await self._store.read(
            lambda: self._store.client.retrieve(self._store.collection, points, with_payload=[MEMORY])
        )
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

    def _point(self, key: str, stored: StoredMemory) -> models.PointStruct:
        dense = self._store.usable(stored.dense)
        if dense is None and stored.dense is not None and self._store.fitness.dense_usable:
            logger.warning("dense_vector_unusable", point_id=key, length=len(stored.dense))
        vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
        if stored.sparse.indices:
            vectors[SPARSE] = _sparse(stored.sparse)
        return models.PointStruct(id=key, vector=vectors, payload=payload_of(self._tenant, stored.memory))

    async def delete(self, ids: Sequence[str]) -> int:
        points = self._points(ids)
        client, collection = self._store.client, self._store.collection
        existing = await self._store.read(
            lambda: client.retrieve(collection, points, with_payload=False, with_vectors=False)
        )
        if existing:
            selector = models.PointIdsList(points=[record.id for record in existing])
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


def _transient(error: BaseException) -> bool:
    """Whether the same call may go well in a moment: no connection, a broken one, an overloaded server."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code in RETRIED
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse | httpx.TransportError)


def _brief(error: Exception) -> str:
    """One line without the response's body, which may hold memory text."""
    if isinstance(error, UnexpectedResponse):
        return f"status {error.status_code} {error.reason_phrase}".strip()
    if isinstance(error, ResponseHandlingException):
        return f"{type(error.source).__name__}: {str(error.source)[:200]}"
    return f"{type(error).__name__}: {str(error)[:200]}"


def _version(text: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _dense_params(dimension: int) -> models.VectorParams:
    return models.VectorParams(size=dimension, distance=models.Distance.COSINE)


def _sparse(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def _found(point: models.ScoredPoint) -> Found:
    vector: Any = point.vector.get(DENSE) if isinstance(point.vector, dict) else None
    return Found(str(point.id), point.score, point.payload, None if vector is None else tuple(vector))


def compile_filter(wanted: tuple[Condition, ...]) -> models.Filter:
    """All of `wanted` in the client's terms."""
    return models.Filter(must=[_compile(condition) for condition in wanted])


def _compile(condition: Condition) -> models.FieldCondition:
    match condition:
        case Equals(key, value):
            return models.FieldCondition(key=key, match=models.MatchValue(value=value))
        case AnyOf(key, values):
            return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
        case AtLeast(key, bound):
            return models.FieldCondition(key=key, range=models.Range(gte=bound))
        case AtMost(key, bound):
            return models.FieldCondition(key=key, range=models.Range(lte=bound))
        case Above(key, bound):
            return models.FieldCondition(key=key, range=models.Range(gt=bound))
        case _:
            assert_never(condition)
