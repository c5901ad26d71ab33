"""The Python client and automations with a running service, as documented."""

import asyncio
import importlib.util
import json
import os
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hooks import MeeseeksClient, Outcome, Reason, SyncMeeseeksClient, SyncPreExecutionHook
from hooks.automations import Automation, AutomationRunner, HookPoint, Registry, RunStatus
from hooks.contract.blocks import find_alike
from tests.support.examples import DOCS, blocks, run_python
from tests.support.scripts import shell
from tests.support.stack import FACTS, MIGRATION, MOUNTAIN, ROOT, Stack, environment, put, running_stack

PRE = HookPoint.PRE_EXECUTION
ACME = {"tenant": "acme"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    arguments = ("up", "--model", "none", "--http", "--http-port", "0")
    with running_stack(tmp_path_factory.mktemp("service"), *arguments) as stack:
        asyncio.run(put(stack.url, FACTS))
        asyncio.run(put(stack.url, FACTS, tenant="default"))
        yield stack


@pytest.fixture
async def client(service: Stack) -> AsyncIterator[MeeseeksClient]:
    async with MeeseeksClient(service.http, timeout=10.0) as client:
        yield client


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    return Registry(tmp_path / "automations.db")


async def test_memories_sent_over_http_are_not_repeated(client: MeeseeksClient) -> None:
    session = uuid.uuid4().hex

    async def ask() -> Any:
        return await client.inject(session_id=session, message=MIGRATION, scope=ACME, deadline_ms=10_000)

    first = await ask()
    assert [item.id for item in first.items] == ["alembic"]
    second = await ask()
    for _ in range(20):
        if second.reason is Reason.ALREADY_SHOWN:
            break
        second = await ask()  # the delivery is noted right after its answer has left, and the machine may be busy
    assert (second.outcome, second.reason) == (Outcome.ALL_DUPLICATE, Reason.ALREADY_SHOWN)
    told = await client.event(type="session.cleared", session_id=session, tenant="acme", deadline_ms=10_000)
    assert (told.done, told.forgotten) == (True, 1)
    assert [item.id for item in (await ask()).items] == ["alembic"]


async def test_memories_over_http(client: MeeseeksClient) -> None:
    stored = await client.remember("Oscar takes his tea with \ud800 milk", tenant="tea", importance=0.7)
    again = await client.remember("Oscar takes his tea with \ud800 milk", tenant="tea", importance=0.7)
    assert (stored.stored, again.stored, stored.reason) == ("created", "unchanged", None)
    found = await client.recall("how does Oscar take his tea", scope={"tenant": "tea"}, types=["fact"])
    assert [memory.id for memory in found.memories] == [stored.id]
    assert found.memories[0].text == "Oscar takes his tea with \ufffd milk"
    assert stored.id is not None
    assert (await client.forget(stored.id, tenant="tea")).forgotten == 1
    gone = await client.forget(stored.id, tenant="tea")
    assert (gone.forgotten, gone.reason) == (0, Reason.NOT_FOUND)
    assert (await client.recall("tea", types=["nonsense"])).reason is Reason.BAD_REQUEST


def test_blocking_calls_through_redis_and_http(service: Stack) -> None:
    request = {"session_id": uuid.uuid4().hex, "message": MIGRATION, "scope": ACME, "deadline_ms": 5000}
    with SyncMeeseeksClient(service.http, timeout=5.0) as client, SyncPreExecutionHook(service.url) as hook:
        assert [item.id for item in client.inject(request).items] == ["alembic"]
        assert hook({**request, "session_id": uuid.uuid4().hex}).outcome is Outcome.INJECTED


def test_the_examples_of_the_client_run(service: Stack, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"url": service.http, "token": None, "redis_url": service.url}
    assert run_python("client.md", names) == 4
    assert names["result"].memory_context
    assert names["history"] == [{"role": "user", "content": "How do we write database migrations?"}]
    assert capsys.readouterr().out.startswith("bad_request status 422")


def test_the_example_of_the_readme_runs(service: Stack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEESEEKS_REDIS_URL", service.url)
    names: dict[str, Any] = {"message": MIGRATION}
    assert run_python("../README.md", names) == 1
    assert names["message"].endswith(MIGRATION)
    assert "Alembic" in names["message"]


@pytest.mark.parametrize("way", ["redis", "http"])
async def test_memory_injection_runs_as_an_automation(
    service: Stack, registry: Registry, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    monkeypatch.setenv("MEESEEKS_REDIS_URL", service.url if way == "redis" else "unix:///nowhere")
    if way == "http":
        monkeypatch.setenv("MEESEEKS_URL", service.http)
    async with AutomationRunner(registry) as runner:
        event = {"session_id": uuid.uuid4().hex, "message": MIGRATION, "scope": ACME}
        outcome = await runner.run(PRE, event)
        nothing = await runner.run(PRE, {**event, "message": MOUNTAIN})
        refused = await runner.run(PRE, {"message": MIGRATION})
        odd = await runner.run(PRE, {**event, "deadline_ms": "soon"})
    assert [(run.name, run.status) for run in outcome.runs] == [("memory-injection", RunStatus.FIRED)]
    assert outcome.prefix(MIGRATION).endswith(f"</memory_context>\n\n{MIGRATION}")
    assert outcome.enrichment["memories"] in outcome.enrichment["memory_context"]
    assert (nothing.enrichment, nothing.runs[0].status) == ({}, RunStatus.SILENT)
    assert nothing.runs[0].detail in {"below_floor", "nothing_selected", "nothing_recalled"}
    assert (refused.runs[0].detail, odd.runs[0].detail) == ("bad_request", "bad_request")


async def test_without_a_service_the_message_does_not_change(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEESEEKS_REDIS_URL", "unix:///nowhere")
    async with AutomationRunner(registry) as runner:
        outcome = await runner.run(PRE, {"session_id": "s", "message": MIGRATION})
    assert outcome.prefix(MIGRATION) == MIGRATION
    assert (outcome.runs[0].status, outcome.runs[0].detail) == (RunStatus.SILENT, "queue_unavailable")


def test_the_examples_of_automations_run(
    service: Stack, tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEESEEKS_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("MEESEEKS_REDIS_URL", service.url)
    names: dict[str, Any] = {}
    assert run_python("automations.md", names) == 2
    assert "Alembic" in names["message"]
    (statement,) = blocks("automations.md", "sql")
    with closing(sqlite3.connect(registry.path)) as connection, connection:
        connection.execute(statement)
    assert registry.get("notes").script == Path("~/bin/notes").expanduser()


def meeseeks(folder: Path) -> Path:
    """A folder with the `meeseeks` command on the PATH."""
    shell(folder, "meeseeks", f'exec "{sys.executable}" -m worker "$@"')
    return folder


def test_the_documented_script_runs(tmp_path: Path) -> None:
    (script,) = blocks("automations.md", "sh")
    (tmp_path / "bin").mkdir()
    path = f"{meeseeks(tmp_path / 'bin')}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = environment(MEESEEKS_DATA_DIR=str(tmp_path / "data"), PATH=path)
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The release train leaves at noon." in done.stdout
    assert done.stdout.endswith("removed: release-train\n")


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("orchestrator", DOCS / "examples/orchestrator.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["orchestrator"] = module
    spec.loader.exec_module(module)
    return module


async def test_the_example_orchestrator_gives_its_workers_memory(
    service: Stack, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEESEEKS_REDIS_URL", service.url)
    seen = tmp_path / "seen"
    listener = shell(tmp_path, "listener", f"cat > {seen}.$$")
    registry.add(Automation("listener", str(listener), HookPoint.POST_EXECUTION, blocking=False, timeout_ms=20_000))
    module = example()
    asked: list[str] = []

    async def worker(messages: list[dict[str, str]]) -> str:
        asked.append(messages[-1]["content"])
        return "With Alembic."

    async with AutomationRunner(registry) as runner:
        orchestrator = module.Orchestrator(runner, worker, tenant="acme")
        session = uuid.uuid4().hex
        assert await orchestrator.dispatch(session, MIGRATION) == "With Alembic."
        await orchestrator.dispatch(session, MIGRATION)
        await runner.drain(20.0)
    assert len(find_alike(asked[0])) == 1
    assert asked[0].endswith(MIGRATION)
    assert asked[1] == MIGRATION
    heard = [json.loads(path.read_text()) for path in tmp_path.glob("seen.*")]  # both listeners may run at once
    assert [one["answer"] for one in heard] == ["With Alembic."] * 2


@pytest.mark.parametrize("service_runs", [True, False])
def test_the_example_orchestrator_runs_as_a_program(service: Stack, tmp_path: Path, service_runs: bool) -> None:
    url = service.url if service_runs else "unix:///nowhere"
    line = [sys.executable, str(DOCS / "examples/orchestrator.py"), uuid.uuid4().hex, MIGRATION]
    done = subprocess.run(
        line,
        cwd=ROOT,
        env=environment(MEESEEKS_REDIS_URL=url, MEESEEKS_DATA_DIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(find_alike(done.stdout)) == (1 if service_runs else 0)
    assert done.stdout.endswith(f"{MIGRATION}\n")


TOKEN = "a-token-that-is-long-enough-0123456789"


async def test_a_token_is_required_and_sent(tmp_path: Path) -> None:
    arguments = ("up", "--model", "none", "--http", "--http-port", "0")
    variables = {"MEESEEKS_HTTP_TOKEN": TOKEN, "MEESEEKS_EMBEDDER": "none"}
    with running_stack(tmp_path, *arguments, **variables) as stack:
        async with (
            MeeseeksClient(stack.http, timeout=10.0, token=TOKEN) as client,
            MeeseeksClient(stack.http, timeout=10.0, token="another") as stranger,
        ):
            assert (await client.remember("Oscar takes milk")).stored == "created"
            assert (await stranger.remember("Oscar takes milk")).reason is Reason.ACCESS_DENIED
            refused = await stranger.inject(session_id="s", message=MIGRATION)
            assert (refused.outcome, refused.reason) == (Outcome.ERROR, Reason.ACCESS_DENIED)
