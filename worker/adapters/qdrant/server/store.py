"""The memory store on a Qdrant server or cluster, reached by URL over REST; any number of processes may share it."""

from typing import Self

from qdrant_client import models

from worker.adapters.qdrant.hits import listed
from worker.adapters.qdrant.payload import DENSE, MEMORY, TENANT, UNKNOWN_EMBEDDER, page_start, tenant_name
from worker.domain.memory import EmbedderProfile, Listing, StoreHealth
from worker.ports.store_record import StoreRecord, bare_note

from .connection import READ_TIMEOUT, WRITE_TIMEOUT, ServerConnection
from .tenant import ServerTenant
from .wire import connected, found_in


class ServerStore:
    """A `StoreEngine` on one collection; `ServerConnection` says how its calls are bounded."""

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
        """Return a store on the server at `url`; nothing is sent yet. Use it in one event loop and close it."""
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
        fit = self.connection.fitness
        notes = list(fit.notes)
        if bare:
            notes.append(bare_note(bare))
        return StoreHealth("server", points, fit.dense_usable, fit.fault, tuple(notes), bare)

    async def record(self) -> StoreRecord:
        """The recipes that the stored vectors were made by."""
        info = await self.connection.read(lambda: self.connection.client.get_collection(self.connection.collection))
        return StoreRecord.parse(info.config.metadata) or StoreRecord(UNKNOWN_EMBEDDER, "")

    async def listing(self, *, limit: int, cursor: str | None = None, vectors: bool = False) -> Listing:
        """A page of the memories of every tenant; with their dense vectors if `vectors`."""
        start = page_start(cursor)
        dense = [DENSE] if vectors else False
        records, following = await self.connection.read(
            lambda: self.connection.client.scroll(
                self.connection.collection, limit=limit, offset=start, with_payload=[MEMORY, TENANT], with_vectors=dense
            )
        )
        entries = [listed(found.point_id, found.payload, found.vector) for found in map(found_in, records)]
        kept = tuple(entry for entry in entries if entry is not None)
        return Listing(kept, None if following is None else str(following), len(entries) - len(kept))

    async def flush(self) -> None:
        """Nothing to do: writes are acknowledged when the server has them."""

    async def aclose(self) -> None:
        await self.connection.client.close()
