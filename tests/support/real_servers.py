"""Real servers that the environment names. A test that needs one is skipped where it is not set.

Tests use collections and a database of their own, and remove what they leave there.
"""

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest
from qdrant_client import AsyncQdrantClient

from tests.support.qdrant_double import qdrant_double
from tests.support.valkey import assert_keys_expire, running_valkey, sync_redis
from worker.adapters.qdrant.server.connection import ServerConnection
from worker.adapters.qdrant.server.store import ServerStore
from worker.adapters.qdrant.server.wire import delete_alias

QDRANT, REDIS, OLLAMA, OLLAMA_MODEL = "QDRANT_URL", "REDIS_URL", "OLLAMA_URL", "OLLAMA_MODEL"


def needs(*variables: str) -> pytest.MarkDecorator:
    """Skip a test unless all `variables` are set."""
    missing = [name for name in variables if not os.environ.get(name)]
    return pytest.mark.skipif(bool(missing), reason=f"set {' and '.join(missing)} to run against a real server")


def engines(*names: str) -> list[Any]:
    """Return parameters for a test of several stores; "server" is a real Qdrant."""
    return [pytest.param(name, marks=needs(QDRANT)) if name == "server" else name for name in names]


REDIS_KINDS = ("valkey", pytest.param("redis", marks=needs(REDIS)))
"""Parameters for a test on the embedded Valkey and on a real Redis."""


@contextmanager
def redis_of(kind: str) -> Iterator[str]:
    """Yield the address of an empty Redis of one of `REDIS_KINDS`."""
    if kind == "valkey":
        with running_valkey() as server:
            yield server.url
    else:
        with redis_database() as url:
            yield url


@contextmanager
def redis_database() -> Iterator[str]:
    """Yield an empty database of the server at REDIS_URL: the one that it names, counted on for parallel tests."""
    address = urlsplit(os.environ[REDIS])
    number = int(address.path.strip("/") or 0) + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    url = address._replace(path=f"/{number}").geturl()
    with sync_redis(url) as client:
        if client.dbsize():
            pytest.fail(f"database {number} at {REDIS} has keys; name an empty one, as in redis://host:6379/9")
        try:
            yield url
            assert_keys_expire(url)
        finally:
            client.flushdb()


@dataclass(frozen=True)
class QdrantServer:
    """A Qdrant server, real or a double, and the name of a store on it that no one else uses."""

    url: str
    name: str
    client: AsyncQdrantClient

    async def collections(self) -> list[str]:
        """Return the collections of the store."""
        found = [one.name for one in (await self.client.get_collections()).collections]
        return [name for name in found if name.startswith(self.name)]

    async def aliases(self) -> list[str]:
        """Return the aliases of the store."""
        found = [one.alias_name for one in (await self.client.get_aliases()).aliases]
        return [name for name in found if name.startswith(self.name)]

    async def clear(self) -> None:
        """Remove the store."""
        await self.client.update_collection_aliases([delete_alias(name) for name in await self.aliases()])
        for name in await self.collections():
            await self.client.delete_collection(name)


SLOW_READ_S = 10.0
"""Time for a read of a server in a test of something else: a busy machine can take longer than a service waits."""


@asynccontextmanager
async def qdrant_server(kind: str) -> AsyncIterator[QdrantServer]:
    """Yield the server at QDRANT_URL if `kind` is "server", or a double; stores of this process wait longer for it."""
    with pytest.MonkeyPatch.context() as patch:
        for connecting in (ServerStore.connect.__func__, ServerConnection.__init__):  # type: ignore[attr-defined]
            patch.setitem(connecting.__kwdefaults__, "read_timeout", SLOW_READ_S)
        async with _double() if kind != "server" else _real() as server:
            yield server


@asynccontextmanager
async def _double() -> AsyncIterator[QdrantServer]:
    async with qdrant_double() as double:
        yield QdrantServer(double.url, "memories", double.engine)


@asynccontextmanager
async def _real() -> AsyncIterator[QdrantServer]:
    url = os.environ[QDRANT]
    client = AsyncQdrantClient(url=url, check_compatibility=False, timeout=30)
    server = QdrantServer(url, f"test-{uuid4().hex}", client)
    try:
        yield server
    finally:
        await server.clear()
        await client.close()
