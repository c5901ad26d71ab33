"""Deleted is deleted: after `forget`, over any interface, the text is nowhere that anybody could read it."""

import asyncio
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from hooks.queue import QueueClient
from tests.support.command_line import command_line
from tests.support.stack import HTTP, Stack, put, running_stack
from tests.support.valkey import sync_redis
from worker.adapters.redis.receipts import RECEIPT_PREFIX
from worker.operations.registry import FORGET

WORDS = "Swordfish Harbour"
WIFI = {"id": "wifi", "content": f"The wifi network is called {WORDS}", "cues": [f"connect to {WORDS}"]}
NEIGHBOUR = {
    "id": "router",
    "content": "The wifi router stands in the hall behind the coats",
    "relations": [{"kind": "refines", "target": "wifi"}],
}
OTHERS = [{"id": f"other-{i}", "content": text} for i, text in enumerate(("Lentils are in the pantry", "Bells ring"))]
QUESTION = "What is the wifi network called?"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("deleted"), "up", "--model", "none", **HTTP) as running:
        yield running


async def by_queue(stack: Stack, tenant: str) -> None:
    client = QueueClient(stack.url)
    try:
        await client.ask(FORGET.name, {"tenant": tenant, "ids": ["wifi"]}, budget=10.0, ack_timeout=5.0)
    finally:
        await client.aclose()


async def by_http(stack: Stack, tenant: str) -> None:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        assert (await client.delete("/v1/memories/wifi", params={"tenant": tenant})).status_code == 200


async def by_mcp(stack: Stack, tenant: str) -> None:
    transport = StreamableHttpTransport(f"{stack.http}/mcp", headers={"Meeseeks-Tenant": tenant})
    async with Client(transport, init_timeout=50) as client:
        assert not (await client.call_tool("forget", {"ids": ["wifi"]})).is_error


async def by_command(stack: Stack, tenant: str) -> None:
    await asyncio.to_thread(command_line(stack.folder).ok, "forget", "wifi", "--permanent", "--tenant", tenant)
    with sync_redis(stack.url) as redis:
        stored = [redis.get(key) for key in redis.scan_iter(f"{RECEIPT_PREFIX}{tenant}:*")]
    assert stored
    assert not any(WORDS.encode() in receipt for receipt in stored), "for good, nothing is kept until it can be erased"


async def injected(client: httpx.AsyncClient, tenant: str, session: str) -> dict[str, Any]:
    message = {"session_id": session, "turn_id": "1", "message": QUESTION, "mode": "deterministic"}
    body = {**message, "deadline_ms": 5000, "scope": {"tenant": tenant}}
    found: dict[str, Any] = (await client.post("/v1/inject", json=body)).json()
    return found


async def receipt_of(client: httpx.AsyncClient, tenant: str, receipt: str) -> httpx.Response:
    for _ in range(100):
        answer = await client.get(f"/v1/receipts/{receipt}", params={"tenant": tenant})
        if answer.status_code == 200:
            return answer
        await asyncio.sleep(0.05)
    raise AssertionError(answer.text)


@pytest.mark.parametrize("forgets", [by_queue, by_http, by_mcp, by_command], ids=lambda one: one.__name__)
async def test_nothing_shows_a_deleted_text(
    stack: Stack, forgets: Callable[[Stack, str], Awaitable[None]], tmp_path: Path
) -> None:
    tenant, session = f"deleted-{forgets.__name__}", uuid.uuid4().hex
    await put(stack.url, [WIFI, NEIGHBOUR, *OTHERS], tenant)
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        first = await injected(client, tenant, session)
        assert WORDS in json.dumps(first), "what is looked for below was there"
        assert WORDS in (await receipt_of(client, tenant, first["receipt_id"])).text
        assert WORDS in (await client.get(f"/v1/sessions/{session}", params={"tenant": tenant})).text
        await forgets(stack, tenant)
        shown = {name: text async for name, text in everything(client, stack, tenant, session, first["receipt_id"])}
    backup = tmp_path / "backup"
    await asyncio.to_thread(command_line(stack.folder).ok, "store", "backup", str(backup))
    shown["backup"] = "".join(file.read_bytes().decode("latin-1") for file in backup.rglob("*") if file.is_file())
    assert {name for name, text in shown.items() if WORDS in text} == set()
    assert {name for name in ("list", "backup") if "behind the coats" not in shown[name]} == set(), "the rest is there"


async def everything(client: httpx.AsyncClient, stack: Stack, tenant: str, session: str, receipt: str) -> Any:
    """Yield what every way of reading says, by its name."""
    where = {"tenant": tenant}
    yield "repeated turn", json.dumps(await injected(client, tenant, session))
    later = await injected(client, tenant, uuid.uuid4().hex)
    yield "later turn", json.dumps(later)
    yield "receipt", (await receipt_of(client, tenant, receipt)).text
    yield "later receipt", (await receipt_of(client, tenant, later["receipt_id"])).text
    yield "receipts", (await client.get("/v1/receipts", params={**where, "brief": False})).text
    yield "replay", (await client.post(f"/v1/receipts/{receipt}/replay", json=where)).text
    yield "label", (await client.post(f"/v1/receipts/{receipt}/label", json={**where, "nothing": True})).text
    yield "show", (await client.get("/v1/memories/wifi", params=where)).text
    yield "show related", (await client.get("/v1/memories/router", params=where)).text
    yield "session", (await client.get(f"/v1/sessions/{session}", params=where)).text
    yield "list", (await client.get("/v1/memories", params=where)).text
    yield "recall", (await client.post("/v1/recall", json={"query": QUESTION, "scope": where})).text
    for command in (("export",), ("receipt", receipt), ("receipt",), ("why", receipt), ("list",), ("usage",)):
        done = await asyncio.to_thread(command_line(stack.folder).run, *command, "--tenant", tenant)
        yield f"meeseeks {command[0]} {len(command)}", done.output
