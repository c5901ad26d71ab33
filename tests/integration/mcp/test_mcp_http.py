"""The MCP tools as the HTTP service serves them: behind access control, with a real client, over real sockets."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastmcp import Client
from fastmcp.client.transports import StreamableHttpTransport

from tests.support.mcp import call, open_store, texts, told
from worker.api.server import HttpServer
from worker.mcp import Backend
from worker.mcp.mount import mcp_mount
from worker.settings.service import ServiceSettings

BOUND, FREE = "acme-token-0123456789", "free-token-0123456789"


@dataclass(frozen=True)
class Served:
    """Where the tools are, and the way there."""

    url: str

    def client(self, **headers: str) -> "Client[Any]":
        return Client(StreamableHttpTransport(self.url, headers=headers))


@asynccontextmanager
async def serving(backend: Backend, **settings: Any) -> AsyncIterator[Served]:
    """The HTTP service with the tools at /mcp, at a port of its own."""
    server = HttpServer(ServiceSettings(http_port=0, **settings))
    tools = mcp_mount(backend, server.tenant_of)
    async with server.serving(backend, _no_look, mounts=tools, alone=True) as url:
        yield Served(f"{url}/mcp")


async def _no_look() -> None:
    return None


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Any]:
    async with open_store(tmp_path) as backend:
        yield backend


@pytest.fixture
async def guarded(backend: Any, tmp_path: Path) -> AsyncIterator[Served]:
    """With two tokens, one of which is bound to the tenant acme."""
    (tmp_path / "tokens").write_text(f"{BOUND} acme\n{FREE}\n", encoding="utf-8")
    async with serving(backend, http_token_file=tmp_path / "tokens") as served:
        yield served


def as_bearer(token: str, **headers: str) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}",
        **{f"Meeseeks-{name.title()}": value for name, value in headers.items()},
    }


async def test_the_tools_are_served(backend: Any) -> None:
    async with (
        serving(backend) as served,
        served.client(**{"Meeseeks-User": "Zo%C3%AB"}) as zoe,
        served.client() as nobody,
    ):
        tools = {tool.name for tool in await zoe.list_tools()}
        assert tools == {"recall", "list", "remember", "update", "forget", "list_without_cues", "add_cues"}
        noted = await call(zoe, "remember", content="The harbour opens at six")
        assert await texts(zoe, "When does the harbour open?") == ["The harbour opens at six"]
        assert await texts(nobody, "When does the harbour open?") == []
        assert "limit: must be at most 30" in await told(zoe, "recall", query="harbour", limit=99)
        assert (await call(zoe, "forget", ids=[noted["id"]]))["forgotten"] == [noted["id"]]


async def test_a_token_binds_the_tenant_and_headers_say_the_rest(guarded: Served) -> None:
    async with (
        guarded.client(**as_bearer(BOUND, user="oscar", tenant="globex")) as oscar,
        guarded.client(**as_bearer(FREE, user="oscar", tenant="acme", shared="true")) as team,
        guarded.client(**as_bearer(FREE, user="mia", tenant="acme")) as mia,
        guarded.client(**as_bearer(FREE, user="oscar", tenant="globex")) as elsewhere,
    ):
        await call(oscar, "remember", content="The locker is number 77")
        await call(team, "remember", content="The locker room is locked at nine")
        assert len(await texts(oscar, "locker")) == 2
        assert await texts(mia, "locker") == ["The locker room is locked at nine"]
        assert await texts(elsewhere, "locker") == []


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


@pytest.mark.parametrize("headers", [{}, as_bearer("wrong-token-0123456789"), {"Authorization": f"Basic {FREE}"}])
async def test_without_a_token_that_is_accepted_nothing_is_served(guarded: Served, headers: dict[str, str]) -> None:
    async with httpx.AsyncClient(headers={**ACCEPT, **headers}) as client:
        refused = await client.post(guarded.url, json=HELLO)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"] == "Bearer"
    assert "serverInfo" not in refused.text


async def test_pages_in_a_browser_are_kept_out(backend: Any) -> None:
    async with serving(backend) as served, httpx.AsyncClient() as browser:
        welcome = await browser.post(served.url, json=HELLO, headers=ACCEPT)
        assert welcome.status_code == 200
        assert welcome.json()["result"]["serverInfo"]["name"] == "meeseeks"
        rebound = await browser.post(served.url, json=HELLO, headers={**ACCEPT, "Host": "evil.example"})
        assert rebound.status_code == 421
        foreign = await browser.post(served.url, json=HELLO, headers={**ACCEPT, "Origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert "access-control-allow-origin" not in welcome.headers


async def pieces() -> AsyncIterator[bytes]:
    """A body of 8 KiB that does not say how long it is."""
    for _ in range(8):
        yield b"x" * 1024


async def outcome(client: httpx.AsyncClient, url: str, content: Any) -> int | None:
    """The status; `None` where the service has closed the connection while the body was still being sent."""
    try:
        return (await client.post(url, content=content, headers=ACCEPT)).status_code
    except httpx.TransportError:
        return None


async def test_limits_of_size_and_rate_hold(backend: Any) -> None:
    async with serving(backend, http_body_limit=4096) as served, httpx.AsyncClient() as client:
        long = {**HELLO, "params": {**HELLO["params"], "more": "x" * 5000}}
        assert (await client.post(served.url, json=long, headers=ACCEPT)).status_code == 413

        assert await outcome(client, served.url, pieces()) in (413, None)
        assert await outcome(client, served.url, json.dumps(HELLO).encode()) == 200
    async with serving(backend, http_rate_limit=1) as served, httpx.AsyncClient() as client:
        statuses = [(await client.post(served.url, json=HELLO, headers=ACCEPT)).status_code for _ in range(80)]
        assert 429 in statuses


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b'"x"', b'{"jsonrpc":"2.0"}', b"[" * 2000, b"null"])
async def test_no_body_breaks_it(backend: Any, body: bytes) -> None:
    async with serving(backend) as served, httpx.AsyncClient() as client:
        assert 400 <= (await client.post(served.url, content=body, headers=ACCEPT)).status_code < 500
        assert (await client.get(served.url)).status_code in (405, 406)
        assert (await client.post(served.url, json=HELLO, headers=ACCEPT)).status_code == 200


async def test_many_first_requests_start_it_once(backend: Any) -> None:
    async with serving(backend) as served, httpx.AsyncClient() as client:
        answers = await asyncio.gather(*(client.post(served.url, json=HELLO, headers=ACCEPT) for _ in range(20)))
        assert {answer.status_code for answer in answers} == {200}
    assert [task.get_name() for task in asyncio.all_tasks() if task.get_name() == "mcp"] == []


async def test_it_ends_with_connections_open(backend: Any) -> None:
    with socket.socket() as idle:
        async with serving(backend) as served:
            idle.connect(("127.0.0.1", int(served.url.split(":")[2].split("/")[0])))
            async with served.client() as client:
                assert await client.list_tools()
        assert idle.recv(1) == b""
