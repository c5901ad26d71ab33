"""HTTP on real sockets: malformed requests, addresses and the queue state."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from structlog.testing import capture_logs

from hooks.protocol import wire
from hooks.queue import connect
from tests.support.http import Recorder
from tests.support.queue_worker import running_worker
from tests.support.valkey import running_valkey, sync_redis
from worker.adapters.redis.queue_state import LIMIT_S, look_at_queue
from worker.api.server import HttpServer, listen
from worker.domain.errors import SettingsError
from worker.operations.client import QueueState
from worker.operations.local_client import LocalOperationClient
from worker.settings.service import ServiceSettings

SECRET = "words-of-somebody"


async def nobody() -> None:
    return None


@asynccontextmanager
async def serving(answers: dict[str, Any] | None = None, **settings: Any) -> AsyncIterator[tuple[str, int]]:
    """Serve these operations and yield host and port."""
    seen = Recorder(answers or {"inject": {"outcome": "none_relevant"}})
    server = HttpServer(ServiceSettings(http_port=0, **settings))
    async with server.serving(LocalOperationClient(seen.handlers, seen.commit), nobody, alone=True) as url:
        host, _, port = url.removeprefix("http://").rpartition(":")
        yield host.strip("[]"), int(port)


async def exchange(address: tuple[str, int], raw: bytes) -> bytes:
    """Send bytes and return the response, until the server closes or is silent for a second."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(raw)
    answer = b""
    try:
        while piece := await asyncio.wait_for(reader.read(1 << 16), 1.0):
            answer += piece
    except (TimeoutError, ConnectionResetError):
        pass
    writer.close()
    return answer


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize(
    ("path", "status"), [("/v1/recall", 413), ("/v1/memories/import", 413), ("/v1/hooks/codex", 200)]
)
async def test_a_caller_that_only_sends_can_still_read_why_its_body_is_refused(
    chunked: bool, path: str, status: int
) -> None:
    part, parts = b"a" * (1 << 20), 12

    def send_everything(address: tuple[str, int]) -> bytes:
        with socket.create_connection(address, timeout=10) as connection:
            length = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {parts << 20}"
            kind = "application/jsonl" if path.endswith("import") else "application/json"
            head = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Type: {kind}", length, "", ""]
            connection.sendall("\r\n".join(head).encode())
            for _ in range(parts):
                connection.sendall(b"100000\r\n" + part + b"\r\n" if chunked else part)
            return connection.recv(1 << 16)

    async with serving(http_body_limit=100_000, http_import_limit=100_000) as address:
        answer = await asyncio.to_thread(send_everything, address)
    assert answer.split(b"\r\n")[0].split()[1] == str(status).encode()


def post(body: bytes, *headers: str, length: int | None = None, path: str = "/v1/inject") -> bytes:
    size = len(body) if length is None else length
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {size}"]
    return "\r\n".join([*lines, *headers, "", ""]).encode() + body


BODY = json.dumps({"session_id": "s", "message": SECRET}).encode()


async def test_malformed_requests_are_refused_and_not_repeated() -> None:
    with capture_logs() as logs:
        async with serving() as address:
            for raw in (
                f"{SECRET}\r\n\r\n".encode(),
                b"\x16\x03\x01\x02\x00\x01\x00" + SECRET.encode(),
                f"GET /{SECRET} HTTP/9.9\r\n\r\n".encode(),
                b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
                b"POST /v1/inject HTTP/1.1\r\nHost: localhost\r\nContent-Length: nine\r\n\r\n",
                b"GET /" + b"x" * 200_000 + b" HTTP/1.1\r\n\r\n",
            ):
                answer = await exchange(address, raw)
                assert answer == b"" or b" 400 " in answer.split(b"\r\n")[0] or b" 421 " in answer.split(b"\r\n")[0]
            assert b" 200 " in await exchange(address, post(BODY))
    assert SECRET not in str(logs)
    assert not [entry for entry in logs if entry["log_level"] in {"error", "critical"}]


async def test_a_request_without_a_host_is_refused() -> None:
    async with serving() as address:
        assert b" 421 " in await exchange(address, b"GET /healthz HTTP/1.0\r\n\r\n")
        assert b" 200 " in await exchange(address, b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n")


async def test_a_long_body_is_refused_before_100_continue() -> None:
    async with serving(http_body_limit=2000) as address:
        answer = await exchange(address, post(b"", "Expect: 100-continue", length=2001))
        assert b" 413 " in answer.split(b"\r\n")[0]
        assert b"100 Continue" not in answer
        allowed = await exchange(address, post(b"", "Expect: 100-continue", length=len(BODY)))
        assert b"100 Continue" in allowed


async def test_several_requests_on_one_connection() -> None:
    async with serving() as address:
        answer = await exchange(address, post(BODY) * 3 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 4
    assert b"server:" not in answer.lower()


async def test_a_body_may_arrive_in_parts() -> None:
    async with serving() as address:
        head = "POST /v1/inject HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        raw = f"{head}Transfer-Encoding: chunked\r\n\r\n".encode()
        for byte in (BODY[start : start + 7] for start in range(0, len(BODY), 7)):
            raw += f"{len(byte):x}\r\n".encode() + byte + b"\r\n"
        assert b" 200 " in await exchange(address, raw + b"0\r\n\r\n")


async def test_ipv6_is_served() -> None:
    async with serving(http_host="::1") as address:
        assert b" 200 " in await exchange(address, b"GET /healthz HTTP/1.1\r\nHost: [::1]:1\r\n\r\n")


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid", "not a host"])
def test_an_unusable_address_is_an_error(host: str) -> None:
    with pytest.raises(SettingsError, match=r"service\.http_port: cannot serve HTTP at"):
        listen(host, 0)


async def test_stopping_does_not_wait_for_idle_connections_or_hanging_requests() -> None:
    async def hang() -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async with asyncio.timeout(30):
        async with serving({"recall": lambda _: hang()}) as address:
            idle, writer = await asyncio.open_connection(*address)
            body = json.dumps({"query": "q"}).encode()
            hanging = asyncio.create_task(exchange(address, post(body, path="/v1/recall")))
            await asyncio.sleep(0.2)
        assert await idle.read() == b""
        writer.close()
        await hanging


async def test_the_queue_state_is_read() -> None:
    with running_valkey() as valkey:
        redis = connect(valkey.url)
        try:
            assert await look_at_queue(redis) == QueueState(0, alive=False)
            with sync_redis(valkey.url) as client:
                client.rpush(wire.WAKE, "a", "b")
                client.pexpire(wire.WAKE, 60_000)
            assert await look_at_queue(redis) == QueueState(2, alive=False)
            with running_worker(valkey.url):
                state = await look_at_queue(redis)
                assert state is not None
                assert state.alive
            assert valkey.pid is not None
            os.kill(valkey.pid, signal.SIGSTOP)
            try:
                async with asyncio.timeout(LIMIT_S + 5):
                    assert await look_at_queue(redis) is None
            finally:
                os.kill(valkey.pid, signal.SIGCONT)
            valkey.stop()
            assert await look_at_queue(redis) is None
        finally:
            await redis.aclose()
