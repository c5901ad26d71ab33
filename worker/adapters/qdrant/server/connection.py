"""A connection to one collection of a Qdrant server, with timeouts, retries and creation of the collection."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential, wait_random

from worker.adapters.qdrant.payload import CONTENT, DENSE, MEMORY, SPARSE
from worker.domain.errors import StoreError
from worker.domain.memory import EmbedderProfile, Vector
from worker.domain.vectors import usable
from worker.ports.store_record import UNKNOWN_RECORD, Compatibility, StoreRecord, check_compatibility

from .wire import SERVER_ERRORS, aliased, brief, dense_params, index_schemas, live_alias, transient, version_of

READ_TIMEOUT = 1.0
WRITE_TIMEOUT = 10.0

TENANT_IDF_SINCE = (1, 19)
"""First server version that weights terms per tenant; older ones weight them per collection."""

CONDITIONS_SINCE = (1, 17)
"""First server version that makes a write only if a condition holds; older ones ignore the condition."""

TOO_OLD = (
    "the Qdrant server has version {version}; before 1.17, processes that change one memory at the same time can"
    " overwrite each other's changes"
)

CONFLICT = 409

FOLLOW_S = 5.0
"""Seconds until every process that shares a store notices a new live generation."""

T = TypeVar("T")

logger = structlog.get_logger()


class ServerConnection:
    """One collection on a server, created if missing on first use.

    Every call ends within `read_timeout` or `write_timeout` (seconds, including retries) or raises `StoreError`. One
    that creates the collection has the longer time.
    With `follow`, `collection` is the name of a store, and its live generation is looked up every `FOLLOW_S` seconds.
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
        follow: bool = False,
    ) -> None:
        self.client = client
        self.collection = collection
        self.profile = profile
        self.tenant_idf = False
        self.notes: tuple[str, ...] = ()
        self._name = collection if follow else None
        self._ask_at = 0.0
        self._bm25_hash = bm25_hash
        self._read_timeout = read_timeout
        self._write_timeout = write_timeout
        self._preparing = asyncio.Lock()
        self._compatibility: Compatibility | None = None

    @property
    def compatibility(self) -> Compatibility:
        """Return whether the collection matches the configured recipes; no dense search before first use."""
        return self._compatibility or Compatibility(dense_usable=False)

    @property
    def dense_usable(self) -> bool:
        return self.compatibility.dense_usable

    def usable(self, vector: Vector | None) -> Vector | None:
        """Return `vector` if it is comparable with the stored ones."""
        if self.profile is None or not self.dense_usable:
            return None
        return usable(vector, self.profile.dimension)

    async def retrieve(
        self, points: list[str], *keys: str, payload: bool = True, dense: bool = False
    ) -> list[models.Record]:
        """Fetch points by id with their memory, further `keys` and, with `dense`, their vectors. Does not retry.

        Without `payload`, fetch only the ids of those that exist.
        """
        if not points:
            return []
        content = CONTENT if dense else (MEMORY,)
        wanted, vectors = [*content, *keys] if payload else False, [DENSE] if dense else False
        return await self.client.retrieve(self.collection, points, with_payload=wanted, with_vectors=vectors)

    async def read(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run a read, with one retry after 30 to 50 ms."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(transient), stop=stop_after_attempt(2), wait=wait_random(0.03, 0.05), reraise=True
        )
        return await self._run(call, retrying, self._read_timeout)

    async def write(self, call: Callable[[], Awaitable[T]]) -> T:
        """Run an idempotent write, in up to five attempts."""
        retrying = AsyncRetrying(
            retry=retry_if_exception(transient),
            stop=stop_after_attempt(5),
            wait=wait_exponential(multiplier=0.1, max=2.0) + wait_random(0.0, 0.1),
            reraise=True,
        )
        return await self._run(call, retrying, self._write_timeout)

    async def _run(self, call: Callable[[], Awaitable[T]], retrying: AsyncRetrying, seconds: float) -> T:
        async def prepared() -> T:
            await self._prepare(limit)
            return await call()

        try:
            async with asyncio.timeout(seconds) as limit:
                return await retrying(prepared)
        except TimeoutError as error:
            raise StoreError(f"the Qdrant server did not answer within {seconds:g} s") from error
        except SERVER_ERRORS as error:
            raise StoreError(f"the Qdrant server failed: {brief(error)}") from error

    async def _prepare(self, limit: asyncio.Timeout) -> None:
        """Create the collection and its indexes if missing, and read its recipes; creating has the time of a write."""
        if self._compatibility is not None and not self._lookup_due():
            return
        async with self._preparing:
            await self._follow()
            if self._compatibility is not None:
                return
            if not await self.client.collection_exists(self.collection):
                limit.reschedule(asyncio.get_running_loop().time() + self._write_timeout)
                await self._create()
            info = await self.client.get_collection(self.collection)
            await self._create_indexes(set(info.payload_schema))
            version = (await self.client.info()).version
            self.tenant_idf = version_of(version) >= TENANT_IDF_SINCE
            self.notes = () if version_of(version) >= CONDITIONS_SINCE else (TOO_OLD.format(version=version),)
            record = StoreRecord.parse(info.config.metadata) or UNKNOWN_RECORD
            found = check_compatibility(record, self.profile, self._bm25_hash)
            if found.fault:
                logger.error("store_recipe_mismatch", collection=self.collection, fault=found.fault)
            self._compatibility = found

    def _lookup_due(self) -> bool:
        return self._name is not None and asyncio.get_running_loop().time() >= self._ask_at

    async def _follow(self) -> None:
        """Switch to the live generation."""
        if self._name is None or not self._lookup_due():
            return
        live = await aliased(self.client, live_alias(self._name)) or self._name
        if live != self.collection:
            self.collection, self._compatibility = live, None
        self._ask_at = asyncio.get_running_loop().time() + FOLLOW_S

    async def _create(self) -> None:
        """Create one collection for all tenants, with an HNSW graph per tenant and no global one."""
        profile = self.profile
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
        """Order the missing indexes without waiting until they are built, which takes longer than a read may.

        A server applies what is ordered in turn, so a write that it has confirmed finds them built.
        """
        for key, schema in index_schemas():
            if key not in existing:
                await self.client.create_payload_index(self.collection, key, schema, wait=False)
