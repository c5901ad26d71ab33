"""HTTP as it is served: what the page gives to copy, addresses, tokens, what counts as shown, starts and ends."""

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hooks.contract import InjectionResult
from tests.support.monitoring import EXPRESSIONS, whatever_came_of_it
from tests.support.ports import free_port
from tests.support.promql import page_of, result
from tests.support.stack import (
    FACTS,
    HTTP,
    MIGRATION,
    ROOT,
    ModelServer,
    Stack,
    assert_discreet,
    command,
    environment,
    fact,
    put,
    running_stack,
)
from tests.support.valkey import running_valkey

PAGE = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
ACME = {"tenant": "acme"}


@pytest.fixture(scope="module")
def stack(model_server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(tmp_path_factory.mktemp("http"), "up", *model_server.options, **HTTP) as stack:
        asyncio.run(put(stack.url, FACTS))
        yield stack
        assert_discreet(stack.log)


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
        yield client


def request(**fields: Any) -> dict[str, Any]:
    return {
        "session_id": uuid.uuid4().hex,
        "message": MIGRATION,
        "scope": ACME,
        "mode": "deterministic",
        "deadline_ms": 10_000,
        **fields,
    }


async def inject(client: httpx.AsyncClient, **fields: Any) -> InjectionResult:
    answer = await client.post("/v1/inject", json=request(**fields))
    assert answer.status_code == 200, answer.text
    return InjectionResult.model_validate(answer.json())


async def shown(client: httpx.AsyncClient, session: str) -> list[str]:
    found = (await client.get(f"/v1/sessions/{session}", params=ACME)).json()
    return [entry["id"] for agent in found["agents"] for entry in agent["shown"]]


def ids(result: InjectionResult) -> list[str]:
    return [item.id for item in result.items]


def test_what_the_page_gives_to_copy_works(stack: Stack, model: ModelServer, tmp_path: Path) -> None:
    model.behave(keep=("Tyler",))
    script = "\n".join(BLOCKS)
    variables = environment(MEESEEKS_URL=stack.http)
    line = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(line, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(BLOCKS) == 5
    assert "<memory_context>" in done.stdout
    assert '"refused":1' in done.stdout
    assert '"memory_injection_overridden":true' in done.stdout
    assert "Tyler likes lemon cake" in (tmp_path / "memories.csv").read_text(encoding="utf-8")


async def test_what_was_sent_counts_as_shown(client: httpx.AsyncClient) -> None:
    session = uuid.uuid4().hex
    assert ids(await inject(client, session_id=session, turn_id="1")) == ["alembic"]
    again = await inject(client, session_id=session, turn_id="1")
    assert ids(again) == ["alembic"], "the same turn gets the same block"
    assert await shown(client, session) == ["alembic"]
    assert (await inject(client, session_id=session, turn_id="2")).reason == "already_shown"
    event = {"type": "session.cleared", "tenant": "acme", "deadline_ms": 10_000}
    assert (await client.post(f"/v1/sessions/{session}/events", json=event)).json()["forgotten"] == 1
    assert ids(await inject(client, session_id=session, turn_id="3")) == ["alembic"]


def send_and_leave(url: str, body: dict[str, Any]) -> None:
    """Send a request over a plain socket and be gone before it is answered."""
    host, port = url.removeprefix("http://").split(":")
    content = json.dumps(body).encode()
    head = f"POST /v1/inject HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        time.sleep(0.2)


async def test_who_left_before_the_answer_was_shown_nothing(
    stack: Stack, client: httpx.AsyncClient, model: ModelServer
) -> None:
    session = uuid.uuid4().hex
    model.behave(delay=1.0)
    await asyncio.to_thread(send_and_leave, stack.http, request(session_id=session, mode="always"))
    await asyncio.sleep(1.5)
    assert await shown(client, session) == []
    assert ids(await inject(client, session_id=session)) == ["alembic"]


async def test_settings_are_changed_from_what_was_read_and_taken_back(client: httpx.AsyncClient) -> None:
    async def change(tag: str, value: int) -> httpx.Response:
        body = {"values": {"max_items": value}}
        return await client.patch("/v1/agents/two%2Feditors/settings", json=body, headers={"If-Match": tag})

    read = (await client.get("/v1/agents/two%2Feditors/settings")).headers["etag"]
    saved, late = sorted(await asyncio.gather(change(read, 2), change(read, 3)), key=lambda one: one.status_code)
    assert (saved.status_code, late.status_code) == (200, 412)
    version = saved.json()["saved_version"]
    expected = f"since version {version - 1} (max_items; by local); read them again, then repeat your change"
    assert expected in late.json()["detail"]
    value = saved.json()["memory_injection"]["max_items"]["value"]
    assert (await client.get("/v1/agents/two%2Feditors/settings")).headers["etag"] == f'"{version}"'

    (made,) = (await client.get("/v1/settings/changes", params={"agent_id": "two/editors"})).json()["changes"]
    assert (made["version"], made["author"], made["not_undoable"]) == (version, {"name": "local", "via": "http"}, None)
    assert made["keys"][0]["new"] == {"value": value, "saved": True, "hidden": False}
    undo = f"/v1/settings/changes/{version}/undo"
    assert not (await client.post(undo)).json()["memory_injection_overridden"]
    again = await client.post(undo)
    assert (again.status_code, again.json()["reason"]) == (412, "conflict")
    assert "undone already" in again.json()["detail"]
    assert (await client.post("/v1/settings/changes/999/undo")).status_code == 404
    assert (await client.request("DELETE", "/v1/settings", headers={"If-Match": read})).status_code == 412


async def test_a_deadline_that_is_over_brings_no_block_and_no_error(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/inject", json=request(), headers={"X-Deadline-Ms": "1"})
    assert answer.status_code == 200
    assert answer.json()["memory_context"] is None
    assert answer.json()["outcome"] in {"timeout", "error"}


async def test_many_at_a_time(client: httpx.AsyncClient) -> None:
    results = await asyncio.gather(*(inject(client, deadline_ms=30_000) for _ in range(50)))
    assert [ids(result) for result in results] == [["alembic"]] * 50


async def test_the_metrics_tell_of_it(client: httpx.AsyncClient) -> None:
    await inject(client)
    lines = (await client.get("/metrics")).text.splitlines()
    assert [line for line in lines if line.startswith('meeseeks_injections_total{degraded="false",engine="determ')]
    assert "meeseeks_worker_alive 1.0" in lines
    assert "meeseeks_store_up 1.0" in lines
    assert [
        line for line in lines if line.startswith('meeseeks_operation_seconds_count{operation="inject",result="done"')
    ]


async def test_the_dashboard_and_the_alerts_read_what_it_publishes(client: httpx.AsyncClient) -> None:
    await inject(client)
    page = page_of((await client.get("/metrics")).text)
    empty = [name for name, expression in EXPRESSIONS.items() if not result(whatever_came_of_it(expression), page)]
    assert empty == ["MeeseeksNotScraped"]


async def test_the_store_of_another_tenant_is_out_of_reach(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    acme, zenith, all_of_them = (f"token-of-{name}-0123456789" for name in ("acme", "zenith", "everybody"))
    tokens.write_text(f"{acme} acme\n{zenith} zenith\n{all_of_them}\n", encoding="utf-8")
    with running_stack(
        tmp_path / "service", "up", "--model", "none", **HTTP, MEESEEKS_HTTP_TOKEN_FILE=str(tokens)
    ) as stack:
        await put(stack.url, FACTS, "acme")

        async def told(token: str | None) -> list[Any]:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with httpx.AsyncClient(base_url=stack.http, timeout=20, headers=headers) as client:
                answers = [
                    await client.post("/v1/inject", json=request()),
                    await client.post("/v1/recall", json={"query": "Alembic", "scope": ACME}),
                    await client.get("/v1/memories", params=ACME),
                    await client.get("/v1/memories/export", params=ACME),
                    await client.get("/v1/memories/alembic", params=ACME),
                    await client.get("/v1/receipts", params=ACME),
                    await client.get("/v1/settings"),
                ]
            return [(answer.status_code, "Alembic" in answer.text) for answer in answers]

        assert await told(acme) == [(200, True)] * 6 + [(403, False)]
        assert (await told(zenith))[:5] == [(200, False)] * 4 + [(404, False)]
        assert await told(all_of_them) == [(200, True)] * 6 + [(200, False)]
        assert await told(None) == [(401, False)] * 7
        assert acme not in stack.log


def test_what_is_wrong_with_the_settings_ends_the_start(tmp_path: Path) -> None:
    """`tests/integration/cli/test_bad_input.py` has more of it."""
    done = command(tmp_path, "up", "--http", variables={"MEESEEKS_HTTP_TOKEN_FILE": "/nowhere/tokens"})
    assert done.returncode == 1
    assert "/nowhere/tokens cannot be read" in " ".join(done.stderr.split())


async def test_a_port_that_is_taken_does_not_stop_the_queue(tmp_path: Path) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)) as other:
        options = ("up", "--model", "none", "--http", "--http-port", str(port))
        with running_stack(tmp_path, *options) as stack:
            assert stack.http == f"none yet: port {port} is in use"
            assert "http_address_taken" in stack.log
            await put(stack.url, FACTS)
            alone = command(tmp_path, "http", "--http-port", str(port))
            assert alone.returncode == 1
            assert f"127.0.0.1:{port}" in alone.stderr
            other.close()
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
                assert await eventually(client, "/healthz", 200)
                assert ids(await inject(client)) == ["alembic"]
            assert stack.stop() == 0


async def eventually(client: httpx.AsyncClient, path: str, status: int, within: float = 20.0) -> bool:
    """Whether the path answers with the status within so many seconds."""
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            if (await client.get(path)).status_code == status:
                return True
        except httpx.TransportError:
            pass
        await asyncio.sleep(0.1)
    return False


async def test_alone_it_serves_whatever_worker_there_is(tmp_path: Path) -> None:
    with running_valkey() as valkey:
        alone = ("--redis-url", valkey.url, "http", "--http-port", "0")
        workers = ("--redis-url", valkey.url, "worker", "--model", "none")
        with running_stack(tmp_path / "http", *alone) as http_only:
            async with httpx.AsyncClient(base_url=http_only.http, timeout=20) as client:
                assert (await client.get("/healthz")).status_code == 200
                ready = await client.get("/readyz")
                assert (ready.status_code, ready.json()["reason"]) == (503, "no_worker")
                nothing = await inject(client)
                assert (nothing.outcome, nothing.reason) == ("timeout", "no_worker")
                assert (await client.post("/v1/recall", json={"query": "q"})).status_code == 503
                with running_stack(tmp_path / "worker", *workers) as worker:
                    await put(valkey.url, FACTS)
                    assert await eventually(client, "/readyz", 200)
                    session = uuid.uuid4().hex
                    assert ids(await inject(client, session_id=session)) == ["alembic"]
                    assert await shown(client, session) == ["alembic"]
                    assert 'outcome="injected"' in (await client.get("/metrics")).text
                    assert worker.stop() == 0
            assert http_only.stop() == 0
        assert_discreet(http_only.log)


async def test_told_to_stop_it_answers_first(model: ModelServer, tmp_path: Path) -> None:
    with running_stack(tmp_path, "up", *model.options, **HTTP) as stack:
        await put(stack.url, FACTS)
        model.behave(delay=1.0)
        async with httpx.AsyncClient(base_url=stack.http, timeout=20) as client:
            asked = asyncio.create_task(inject(client, mode="always"))
            await asyncio.sleep(0.4)
            os.kill(stack.pid, signal.SIGTERM)
            assert ids(await asked)[0] == "alembic"
            assert await asyncio.to_thread(stack.wait) == 0
            with pytest.raises(httpx.TransportError):
                await client.get("/healthz")


async def test_an_import_and_an_export_of_many(client: httpx.AsyncClient) -> None:
    tenant = {"tenant": uuid.uuid4().hex}
    lines = [json.dumps(fact(f"m{number}", f"Fact number {number} of the many")) for number in range(450)]
    content = "\n".join([*lines[:200], "not a memory", *lines[200:]])
    kind = {"Content-Type": "application/jsonl"}
    report = (await client.post("/v1/memories/import", params=tenant, content=content, headers=kind)).json()
    assert (report["created"], report["refused"], report["rejected"][0]["line"]) == (450, 1, 201)
    exported = (await client.get("/v1/memories/export", params=tenant)).text.splitlines()
    assert {json.loads(line)["id"] for line in exported} == {f"m{number}" for number in range(450)}
    again = (await client.post("/v1/memories/import", params=tenant, content=content, headers=kind)).json()
    assert (again["created"], again["unchanged"]) == (0, 450)


async def test_turns_of_a_conversation_are_captured_and_the_capture_is_undone(client: httpx.AsyncClient) -> None:
    tenant = uuid.uuid4().hex
    turns = [{"role": "user", "text": "From now on write British English"}]
    body = {"session_id": "s1", "tenant": tenant, "turns": turns, "mode": "auto"}
    done = (await client.post("/v1/capture", json=body)).json()
    assert done["changes"][0]["text"] == "From now on write British English"
    (receipt,) = (await client.get("/v1/captures", params={"tenant": tenant})).json()["captures"]
    undo = await client.post(f"/v1/captures/{receipt['id']}/undo", json={"tenant": tenant})
    assert undo.json()["state"] == "undone"
    wrong = await client.post("/v1/capture", json={**body, "mode": "always"})
    assert (wrong.status_code, "use off, review or auto" in wrong.text) == (422, True)
