"""The memory store on a Qdrant server or cluster, over REST; any number of processes can share it."""

from typing import Self

from qdrant_client import models

from worker.adapters.qdrant.hits import listing_of
from worker.adapters.qdrant.payload import CONTENT, DENSE, TENANT, page_start, tenant_name
from worker.domain.memory import EmbedderProfile
from worker.domain.pages import Listing
from worker.domain.store_health import StoreHealth
from worker.ports.store_record import UNKNOWN_RECORD, StoreRecord

from .connection import READ_TIMEOUT, WRITE_TIMEOUT, ServerConnection
from .tenant import ServerTenant
from .wire import connected, found_in


class ServerStore:
    """A `StoreEngine` on one collection; see `ServerConnection` for timeouts."""

    def __init__(self, connection: ServerConnection) -> None:
        self.connection = connection

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
        follow: bool = False,
    ) -> Self:
        """Return a store on the server at `url` without connecting yet. Use it from one event loop and close it."""
        return cls(
            ServerConnection(
                connected(url, api_key, write_timeout),
                collection=collection,
                profile=profile,
                bm25_hash=bm25_hash,
                read_timeout=read_timeout,
                write_timeout=write_timeout,
                follow=follow,
            )
        )

    def tenant(self, name: str) -> ServerTenant:
        return ServerTenant(self.connection, tenant_name(name))

    async def health(self) -> StoreHealth:
        async def ask() -> tuple[int, int]:
            client, collection = self.connection.client, self.connection.collection
            points = await client.count(collection, exact=True)
            if self.connection.profile is None:
                return points.count, 0
            bare = models.Filter(must_not=[models.HasVectorCondition(has_vector=DENSE)])
            return points.count, (await client.count(collection, count_filter=bare, exact=True)).count

        points, bare = await self.connection.read(ask)
        return self.connection.compatibility.health("server", points, bare, *self.connection.notes)

    async def record(self) -> StoreRecord:
        info = await self.connection.read(lambda: self.connection.client.get_collection(self.connection.collection))
        return StoreRecord.parse(info.config.metadata) or UNKNOWN_RECORD

    async def listing(self, *, limit: int, cursor: str | None = None, vectors: bool = False) -> Listing:
        start = page_start(cursor)
        keys, dense = [*CONTENT, TENANT], [DENSE] if vectors else False
        records, following = await self.connection.read(
            lambda: self.connection.client.scroll(
                self.connection.collection, limit=limit, offset=start, with_payload=keys, with_vectors=dense
            )
        )
        return listing_of(list(map(found_in, records)), following)

    async def flush(self) -> None:
        """Do nothing; the server acknowledges every write."""

    async def aclose(self) -> None:
        await self.connection.client.close()
