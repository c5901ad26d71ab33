"""The memory store is taken, damaged, away, slow or cut off in the middle of an import."""

import asyncio
import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hooks import Engine, Outcome, PreExecutionHook, Reason
from hooks.queue import QueueClient, QueueFault
from tests.support.ports import free_port
from tests.support.qdrant_double import QdrantDouble
from tests.support.stack import (
    FACTS,
    MIGRATION,
    NOISE_S,
    Stack,
    ask,
    ask_until,
    assert_discreet,
    command,
    exported,
    fact,
    put,
    running_stack,
)
from tests.support.valkey import running_valkey, sync_redis
from worker.adapters.redis.embedded_valkey import EmbeddedValkey
from worker.operations.registry import HEALTH

IMPORTED = 2000


@pytest.fixture
def valkey() -> Iterator[EmbeddedValkey]:
    with running_valkey() as server:
        yield server


def assert_refused(ran: "subprocess.CompletedProcess[str]", *words: str) -> None:
    """A clear message on standard error, exit status 1, and nothing that a program's insides print."""
    assert ran.returncode == 1, ran
    said = " ".join((ran.stdout + ran.stderr).split())
    assert [word for word in words if word not in said] == [], said
    assert "Traceback" not in said
    assert "panicked" not in said


async def test_the_store_has_one_owner(tmp_path: Path, valkey: EmbeddedValkey) -> None:
    with running_stack(tmp_path, "--redis-url", valkey.url, "up", "--model", "none") as owner:
        second = ("--redis-url", valkey.url, "worker", "--model", "none")
        for arguments in (second, ("remember", "Nobody hears of this")):
            ran = await asyncio.to_thread(command, tmp_path, *arguments)
            assert_refused(ran, "in use", f"process {owner.pid}", "qdrant_url")
        assert await exported(valkey.url) == {}
        assert owner.stop() == 0
    ran = await asyncio.to_thread(command, tmp_path, "remember", "The store is free again", "--json")
    assert json.loads(ran.stdout)["stored"] == "created"


def test_a_service_that_was_killed_can_be_started_again_at_once(tmp_path: Path) -> None:
    """Its Valkey ends a moment later, and the new service waits for that."""
    with running_stack(tmp_path, "up", "--model", "none", MEESEEKS_EMBEDDER="none") as stack:
        for _ in range(2):
            killed = stack.pid
            stack.kill()
            stack.start()
            assert stack.pid != killed
            assert stack.said("status")["pid"] == stack.pid


async def test_a_second_service_on_the_same_folder_says_what_is_in_the_way(tmp_path: Path) -> None:
    with running_stack(tmp_path, "up", "--model", "none") as first:
        words = (f"already running (pid {first.pid})", "--data-dir")
        assert_refused(await asyncio.to_thread(command, tmp_path, "up"), *words)
        variables = {"MEESEEKS_MODEL": "openai/mine", "MEESEEKS_MODEL_API_BASE": "http://127.0.0.1:1"}
        said = await asyncio.to_thread(command, tmp_path, "inject", "hello there", variables=variables)
        assert said.returncode == 0
        for name in variables:
            assert f"{name} is ignored: the running service uses none" in " ".join(said.stderr.split())
        replayed = ("replay", "0000", "--model", "openai/mine", "--model-api-base", "http://127.0.0.1:1")
        assert_refused(await asyncio.to_thread(command, tmp_path, *replayed), "a service is running", "service.models")
        await put(first.url, FACTS)
        async with PreExecutionHook(first.url) as hook:
            assert (await ask(hook, MIGRATION)).ids == ["alembic"]
            kill_embedded_valkey(first)
            await ask_until(hook, MIGRATION, within=10.0)
        assert first.stop() == 0
        assert_discreet(first.log)


def kill_embedded_valkey(stack: Stack) -> None:
    with sync_redis(stack.url) as redis:
        os.kill(int(redis.info("server")["process_id"]), signal.SIGKILL)


async def test_a_damaged_store_is_reported(tmp_path: Path) -> None:
    with running_stack(tmp_path, "up", "--model", "none") as stack:
        await put(stack.url, FACTS)
        assert stack.stop() == 0
    for file in (tmp_path / "data" / "memories" / "points").rglob("*"):
        if file.is_file():
            file.write_bytes(b"\x07" * 100)
    for arguments in (("up", "--model", "none"), ("recall", "anything")):
        ran = await asyncio.to_thread(command, tmp_path, *arguments)
        assert_refused(ran, "memories", "or import an export")


@contextmanager
def silent_server(port: int) -> Iterator[None]:
    """Takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", port), backlog=100):
        yield


async def test_a_qdrant_server_may_be_away_hang_and_come_later(tmp_path: Path, valkey: EmbeddedValkey) -> None:
    port = free_port()
    arguments = ("--redis-url", valkey.url, "--qdrant-url", f"http://127.0.0.1:{port}", "worker", "--model", "none")
    with running_stack(tmp_path, *arguments) as worker:
        async with PreExecutionHook(valkey.url) as hook:
            refused = await ask(hook, MIGRATION)
            with silent_server(port):
                hanging = await ask(hook, MIGRATION, deadline_ms=900)
            double = QdrantDouble()
            server = await asyncio.start_server(double.serve, "127.0.0.1", port)
            try:
                await put(valkey.url, FACTS)
                assert (await ask(hook, MIGRATION)).ids == ["alembic"]
                assert await asyncio.to_thread(worker.stop) == 0
            finally:
                server.close()
                await double.engine.close()
        for answered in (refused, hanging):
            assert answered.told == (Outcome.ERROR, Reason.STORE_UNAVAILABLE, Engine.NONE, True)
            assert answered.result.prefix(MIGRATION) == MIGRATION
        assert refused.seconds < 0.5 + NOISE_S
        assert_discreet(worker.log)


async def test_a_worker_killed_in_mid_job_is_waited_for_until_the_deadline(
    tmp_path: Path, valkey: EmbeddedValkey
) -> None:
    port = free_port()
    arguments = ("--redis-url", valkey.url, "--qdrant-url", f"http://127.0.0.1:{port}", "worker", "--model", "none")
    with running_stack(tmp_path, *arguments) as worker, silent_server(port):
        async with PreExecutionHook(valkey.url) as hook:
            asked = asyncio.create_task(ask(hook, MIGRATION, deadline_ms=1000))
            await asyncio.sleep(0.3)
            worker.kill()
            answered = await asked
    assert answered.told == (Outcome.TIMEOUT, Reason.DEADLINE, Engine.NONE, False)
    assert answered.seconds > 0.9


async def points(url: str) -> int:
    client = QueueClient(url)
    try:
        health = (await client.ask(HEALTH.name, {}, budget=20.0, ack_timeout=10.0)).body
    finally:
        await client.aclose()
    stored: int = health["store"]["points"]
    return stored


async def store_in_batches(url: str, memories: list[dict[str, object]], acknowledged: list[str]) -> None:
    """Store memories a hundred at a time; ids are listed once the service has said that they are stored."""
    for start in range(0, len(memories), 100):
        batch = memories[start : start + 100]
        await put(url, batch, tenant="ours")
        acknowledged += [str(memory["id"]) for memory in batch]


async def test_a_service_killed_in_mid_import_keeps_what_it_has_acknowledged(tmp_path: Path) -> None:
    memories = [fact(f"n{number}", f"Fact {number} of the long list") for number in range(IMPORTED)]
    file = tmp_path / "memories.jsonl"
    file.write_text("".join(json.dumps(memory) + "\n" for memory in memories), encoding="utf-8")
    with running_stack(tmp_path, "up", "--model", "none", MEESEEKS_EMBEDDER="none") as stack:
        arguments = ("import", str(file), "--tenant", "theirs", "--json")
        theirs = asyncio.create_task(asyncio.to_thread(stack.command, *arguments))
        while await points(stack.url) == 0:
            await asyncio.sleep(0.02)
        acknowledged: list[str] = []
        ours = asyncio.create_task(store_in_batches(stack.url, memories, acknowledged))
        while len(acknowledged) < 300:
            await asyncio.sleep(0.005)
        stack.kill()
        with pytest.raises(QueueFault):
            await ours
        cut_off = await theirs
        assert cut_off.returncode == 1
        assert "Redis cannot be reached" in json.loads(cut_off.stdout)["error"]
        assert 300 <= len(acknowledged) < IMPORTED
        stack.start()
        assert set(acknowledged) <= (await exported(stack.url, "ours")).keys()
        begun = set(await exported(stack.url, "theirs"))
        assert 0 < len(begun) < IMPORTED
        again = await asyncio.to_thread(stack.command, *arguments)
        done = json.loads(again.stdout)
        assert (done["created"], done["unchanged"]) == (IMPORTED - len(begun), len(begun))
        assert await exported(stack.url, "theirs") == {memory["id"]: memory["content"] for memory in memories}
        assert stack.stop() == 0
