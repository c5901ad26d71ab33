"""Many clients change one memory at the same time, over HTTP and through the queue: every answered change stays."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from hooks.queue import QueueClient, QueueFault
from tests.support.changes import CHANGES, WANTED
from tests.support.real_servers import QDRANT, REDIS, needs, qdrant_server, redis_of
from tests.support.stack import HTTP, Stack, fact, put, running_stack
from worker.operations.registry import FORGET, PUT, RELATE, SHOW, UPDATE

BOTH = needs(QDRANT, REDIS)
ROUNDS = 6
"""Rounds of calls at once. Two workers get 25 and meet in each; a store that sets no condition fails in the first.
`make parallel` makes many more, without processes."""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with running_stack(tmp_path, "up", "--model", "none", **HTTP) as stack:
        yield stack


async def test_parallel_requests_over_http_keep_every_change(stack: Stack) -> None:
    async with httpx.AsyncClient(base_url=stack.http, timeout=30) as client:
        for number in range(ROUNDS):
            key = f"m{number}"
            await put(stack.url, [fact(key, "The gate is green"), fact(f"d{number}", "The pier is long")])

            async def patch(change: dict[str, Any], key: str = key) -> httpx.Response:
                return await client.patch(f"/v1/memories/{key}", json={"tenant": "acme", "changes": change})

            answers = await asyncio.gather(*map(patch, CHANGES))
            assert [one.status_code for one in answers] == [200] * len(CHANGES)
            found = (await client.get(f"/v1/memories/{key}", params={"tenant": "acme"})).json()["memory"]
            assert {name: found.get(name) for name in WANTED} == WANTED

            doomed = f"/v1/memories/d{number}"
            body = [{"tenant": "acme", "changes": {"importance": share / 10}} for share in range(1, 9)]
            patches = [client.patch(doomed, json=one) for one in body]
            deleted, *_ = await asyncio.gather(client.delete(doomed, params={"tenant": "acme"}), *patches)
            assert deleted.status_code == 200
            assert (await client.get(doomed, params={"tenant": "acme"})).status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize(("store", "queue"), [("rest", "valkey"), pytest.param("server", "redis", marks=BOTH)])
async def test_two_workers_on_one_server_keep_every_change(store: str, queue: str, tmp_path: Path) -> None:
    async with qdrant_server(store) as server:
        with redis_of(queue) as redis_url, ExitStack() as workers:
            for name in ("a", "b"):
                arguments = ("--redis-url", redis_url, "--qdrant-url", server.url, "worker", "--model", "none")
                where = {"MEESEEKS_COLLECTION": server.name}
                await asyncio.to_thread(workers.enter_context, running_stack(tmp_path / name, *arguments, **where))
            client = QueueClient(redis_url)
            try:
                for number in range(ROUNDS):
                    found, targets = await one_round(client, number)
                    assert {name: found.get(name) for name in WANTED} == WANTED
                    assert sorted(link["target"] for link in found["relations"]) == targets
            finally:
                await client.aclose()


async def one_round(client: QueueClient, number: int) -> tuple[dict[str, Any], list[str]]:
    """Return the memory that all writers changed, and the targets that they linked; a deleted one stays deleted."""

    async def call(operation: Any, **payload: Any) -> dict[str, Any]:
        sent = {"tenant": "acme", **payload}
        while True:
            try:
                return (await client.ask(operation.name, sent, budget=30.0, ack_timeout=10.0)).body
            except QueueFault as fault:
                if "did not answer within" not in str(fault):  # nothing was acknowledged: the server's double is busy
                    raise

    key, doomed, targets = f"m{number}", f"d{number}", [f"t{number}-{place}" for place in range(8)]
    facts = [fact(one, f"The gate {one} is green") for one in (key, doomed, *targets)]
    await call(PUT, memories=facts)
    calls: list[Callable[[], Awaitable[Any]]] = []
    for change, target in zip(CHANGES, targets, strict=True):
        calls.append(lambda change=change: call(UPDATE, id=key, changes=change))
        calls.append(lambda target=target: call(RELATE, source=key, kind="about", target=target))
        calls.append(lambda change=change: call(UPDATE, id=doomed, changes=change))
    calls.insert(len(calls) // 2, lambda: call(FORGET, ids=[doomed]))
    answers = await asyncio.gather(*(one() for one in calls), return_exceptions=True)
    faults = [one for one in answers if isinstance(one, Exception)]
    assert [str(one) for one in faults if not isinstance(one, QueueFault) or doomed not in str(one)] == []
    with pytest.raises(QueueFault):
        await call(SHOW, id=doomed)
    return (await call(SHOW, id=key))["memory"], targets
