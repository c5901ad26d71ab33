"""Empty memory stores of every engine, and memories to put into them."""

import hashlib
import math
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.memory import EmbedderProfile, HybridQuery, Memory, MemoryFilter, StoredMemory, Vector
from worker.ports.store import StoreEngine

if TYPE_CHECKING:
    from qdrant_client import AsyncQdrantClient

DIMENSION = 16
CREATED = datetime(2026, 1, 10, 9, tzinfo=UTC)
ENCODER = Bm25Encoder("english")

ENGINES = ("edge", "memory", "rest", "server")
"""The embedded store, and the server store on the client's in-memory engine, a REST double and a real server."""


def profile(name: str = "tiny", dimension: int = DIMENSION) -> EmbedderProfile:
    return EmbedderProfile(name, "1", dimension, candidate_threshold=0.25, confident=0.3, duplicate=0.92)


def direction(seed: str, dimension: int = DIMENSION) -> Vector:
    """Return the random unit vector of a seed."""
    source = random.Random(hashlib.sha256(seed.encode()).digest())
    values = [source.gauss(0.0, 1.0) for _ in range(dimension)]
    length = math.sqrt(sum(value * value for value in values))
    return tuple(value / length for value in values)


def near(vector: Vector, cosine: float, seed: str = "aside") -> Vector:
    """Return a unit vector with the given cosine to a unit vector."""
    aside = direction(seed, len(vector))
    along = sum(a * b for a, b in zip(aside, vector, strict=True))
    rest = [a - along * b for a, b in zip(aside, vector, strict=True)]
    length = math.sqrt(sum(value * value for value in rest))
    share = math.sqrt(1.0 - cosine * cosine)
    return tuple(cosine * b + share * r / length for b, r in zip(vector, rest, strict=True))


def memory(key: str, content: str = "The bell hangs on the larch beam", **fields: Any) -> Memory:
    return Memory.model_validate({"id": key, "content": content, "created_at": CREATED, **fields})


def stored(item: Memory, dense: Vector | None = None, *, bare: bool = False) -> StoredMemory:
    """Return a memory with its vectors, with `bare` without a dense one; by default, the content is its seed."""
    vector = None if bare else dense or direction(item.content)
    return StoredMemory(item, vector, ENCODER.passage(item.content))


def query(
    text: str | None = None, dense: Vector | None = None, where: MemoryFilter | None = None, limit: int = 20
) -> HybridQuery:
    sparse = None if text is None else ENCODER.query(text)
    return HybridQuery(dense, sparse, where or MemoryFilter(), limit)


@asynccontextmanager
async def opened(
    engine: str, folder: Path, made_for: EmbedderProfile | None = None, bm25_hash: str = ENCODER.config_hash
) -> AsyncIterator[StoreEngine]:
    """Open an empty store on one of `ENGINES`; "server" uses a new collection at QDRANT_URL."""
    made_for = made_for or profile()
    if engine == "edge":
        edge = await EdgeStore.open(folder / "store", profile=made_for, bm25_hash=bm25_hash)
        try:
            yield edge
        finally:
            await edge.aclose()
        return
    from worker.adapters.qdrant.server.connection import ServerConnection  # as in `connected`
    from worker.adapters.qdrant.server.store import ServerStore

    async with AsyncExitStack() as stack:
        client, name = await connected(engine, stack)
        connection = ServerConnection(client, collection=name, profile=made_for, bm25_hash=bm25_hash)
        server = ServerStore(connection)
        try:
            yield server
        finally:
            await server.aclose()


async def connected(engine: str, stack: AsyncExitStack) -> "tuple[AsyncQdrantClient, str]":
    from qdrant_client import AsyncQdrantClient  # slow to load, and the processes of `store_writer` need no server

    from tests.support.real_servers import qdrant_server

    if engine == "memory":
        return AsyncQdrantClient(":memory:"), "memories"
    server = await stack.enter_async_context(qdrant_server(engine))
    return AsyncQdrantClient(url=server.url, check_compatibility=False), server.name
