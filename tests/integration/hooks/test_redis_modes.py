"""The hook and a worker on Redis behind sentinels and behind TLS, and what they say of what they cannot use."""

import asyncio
from collections.abc import Iterator

import pytest

from hooks.contract import Reason
from hooks.pre_execution import PreExecutionHook
from hooks.queue import QueueClient, QueueFault, connect
from tests.support.queue_worker import running_worker
from tests.support.redis_servers import (
    PASSWORD,
    SENTINEL_PASSWORD,
    Encrypted,
    Replicated,
    cluster,
    encrypted,
    replicated,
)
from tests.support.stack import ask_until
from worker.adapters.redis.faults import redis_errors
from worker.domain.errors import QueueError

WITHIN_S = 20.0
WRONG = "wrong-hunter2"


@pytest.fixture(scope="module")
def group() -> Iterator[Replicated]:
    with replicated() as servers:
        yield servers


@pytest.fixture(scope="module")
def tls() -> Iterator[Encrypted]:
    with encrypted() as server:
        yield server


async def said_of(url: str) -> str:
    """Return what the hook's client says of a server; what the worker says of it must be the same."""
    client = QueueClient(url)
    try:
        with pytest.raises(QueueFault) as fault:
            await client.ask("echo", {}, budget=5.0, ack_timeout=5.0)
    finally:
        await client.aclose()
    redis = connect(url, connect_timeout=5.0)
    try:
        with pytest.raises(QueueError) as error:
            async with redis_errors(5.0):
                await redis.eval("return redis.call('MGET', KEYS[1], KEYS[2])", 2, "one", "two")
    finally:
        await redis.aclose()
    assert fault.value.reason is error.value.reason is Reason.QUEUE_UNAVAILABLE
    assert str(error.value) == str(fault.value)
    for secret in (PASSWORD, SENTINEL_PASSWORD, WRONG):
        assert secret not in str(error.value)
    return str(error.value)


async def served(url: str) -> None:
    """Run a worker and ask it through a hook."""
    with running_worker(url, wait=False):
        async with PreExecutionHook(url) as hook:
            await ask_until(hook, "What is the plan?", within=WITHIN_S, scope={"tenant": "acme"})


async def test_a_worker_and_a_hook_meet_on_the_master_that_sentinels_name(group: Replicated) -> None:
    await served(group.url())


async def test_a_dead_sentinel_is_passed_over(group: Replicated) -> None:
    url = group.url().replace("@127.0.0.1", "@127.0.0.1:1,127.0.0.1", 1)
    client = connect(url)
    try:
        assert await client.ping()
    finally:
        await client.aclose()


async def test_errors_of_sentinels_say_what_to_check(group: Replicated) -> None:
    assert "check the sentinels' addresses and the master's name" in await said_of(group.url(master="another"))
    assert "set sentinel_password" in await said_of(group.url(own=WRONG))
    assert "refuses the user or password" in await said_of(group.url(password=WRONG))


async def test_a_sentinel_that_is_taken_for_a_server_is_named(group: Replicated) -> None:
    assert "redis+sentinel://" in await said_of(group.sentinels[0].url)


async def test_a_replica_is_refused_with_the_way_to_its_master(group: Replicated) -> None:
    master = await asyncio.to_thread(group.master)
    replica = next(server for server in group.servers if server is not master)
    redis = connect(replica.url)
    try:
        with pytest.raises(QueueError, match=r"this Redis is a replica; .*redis\+sentinel://"):
            async with redis_errors(5.0):
                await redis.set("key", "value", px=1)
    finally:
        await redis.aclose()


async def test_a_cluster_is_called_one() -> None:
    with cluster() as server:
        said = await said_of(server.url)
    assert said.startswith("this Redis is a cluster. Redis Cluster is not supported")


async def test_a_worker_and_a_hook_meet_over_tls(tls: Encrypted) -> None:
    await served(tls.url())


async def test_an_unknown_authority_a_wrong_name_and_a_missing_certificate_are_refused(tls: Encrypted) -> None:
    assert "name the authority's file with ssl_ca_certs" in await said_of(tls.url(options=""))
    assert "the certificate of Redis is not accepted: IP address mismatch" in await said_of(tls.url(host="127.0.0.1"))
    missing = await said_of(tls.url(options=f"ssl_ca_certs={tls.authority}"))
    assert missing.startswith(("TLS with Redis failed", "Redis cannot be reached"))
