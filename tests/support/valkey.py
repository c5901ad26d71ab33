"""A real Valkey for tests, and the check that nothing is left in it for ever."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from hooks import wire
from worker.adapters.redis import overrides as redis_overrides
from worker.adapters.redis.embedded_valkey import EmbeddedValkey


@contextmanager
def running_valkey() -> Iterator[EmbeddedValkey]:
    """A server of the test's own, in a folder of its own, that keeps nothing; at the end every key must expire."""
    home = Path(tempfile.mkdtemp(prefix="meeseeks-test-"))
    server = EmbeddedValkey(home, persist=False)
    try:
        server.start()
        yield server
        if server.pid is not None:
            assert_keys_expire(server.url)
    finally:
        server.stop()
        shutil.rmtree(home, ignore_errors=True)


@contextmanager
def sync_redis(url: str) -> Iterator["redis.Redis"]:
    """A blocking client, to look into the server."""
    client = redis.Redis.from_url(url, socket_timeout=5)
    try:
        yield client
    finally:
        client.close()


def assert_keys_expire(url: str) -> None:
    """No key without a time to live, but those that are named as permanent."""
    with sync_redis(url) as client:
        endless = {key.decode() for key in client.scan_iter(count=1000) if client.ttl(key) == -1}
    assert endless <= wire.PERMANENT_KEYS | {redis_overrides.KEY}


def forget(url: str) -> None:
    """Empty a server that several tests share, once what it holds has been checked."""
    assert_keys_expire(url)
    with sync_redis(url) as client, contextlib.suppress(redis.ResponseError):
        client.flushall()
