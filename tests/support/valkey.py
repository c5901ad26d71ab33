"""A real Valkey for tests, and a check that its keys expire."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis

from hooks.protocol import wire
from worker.adapters.redis import overrides as redis_overrides
from worker.adapters.redis.captures import REFUSALS_PREFIX, SALT_KEY
from worker.adapters.redis.embedded_valkey import EmbeddedValkey
from worker.adapters.redis.host_state import PROJECTS_PREFIX


@contextmanager
def running_valkey() -> Iterator[EmbeddedValkey]:
    """Run a server without persistence, and check at the end that every key expires."""
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
    """Open a blocking client."""
    client = redis.Redis.from_url(url, socket_timeout=5)
    try:
        yield client
    finally:
        client.close()


def assert_keys_expire(url: str) -> None:
    """Check that every key but the permanent ones expires."""
    with sync_redis(url) as client:
        permanent = {key.decode() for key in client.scan_iter(count=1000) if client.ttl(key) == -1}
    permanent = {key for key in permanent if not key.startswith((PROJECTS_PREFIX, REFUSALS_PREFIX))}
    assert permanent <= wire.PERMANENT_KEYS | {redis_overrides.KEY, SALT_KEY}


def forget(url: str) -> None:
    """Check and empty a database that several tests share."""
    assert_keys_expire(url)
    with sync_redis(url) as client, contextlib.suppress(redis.ResponseError):
        client.flushdb()
