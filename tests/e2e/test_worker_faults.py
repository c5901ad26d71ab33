"""A worker that is missing, frozen, killed or told to stop: the message goes on as it is, in time."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hooks import Engine, Outcome, PreExecutionHook, Reason
from hooks.queue import QueueClient
from tests.support.stack import (
    FACTS,
    INVOICES,
    MIGRATION,
    NOISE_S,
    ModelServer,
    Stack,
    ask,
    ask_until,
    assert_discreet,
    exported,
    put,
    running_stack,
    shim,
)
from tests.support.valkey import running_valkey
from worker.operations.registry import RECEIPTS

NOTICED_S = 0.250
ALIVE_S = 2.0
"""Seconds after which a worker that says nothing counts as dead."""


@pytest.fixture(scope="module")
def worker(model_server: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A service with a model, for tests that stop it and start it again."""
    with running_stack(tmp_path_factory.mktemp("worker"), "up", *model_server.options) as stack:
        asyncio.run(put(stack.url, FACTS))
        yield stack
        assert_discreet(stack.log)


@pytest.fixture
async def hook(worker: Stack) -> AsyncIterator[PreExecutionHook]:
    async with PreExecutionHook(worker.url) as hook:
        yield hook


async def receipts_of(url: str, session: str) -> int:
    """How many requests of a session a worker has answered."""
    client = QueueClient(url)
    try:
        body = (await client.ask(RECEIPTS.name, {"tenant": "acme", "limit": 1000}, budget=5.0, ack_timeout=2.0)).body
    finally:
        await client.aclose()
    return sum(receipt["request"]["session_id"] == session for receipt in body["receipts"])


async def test_without_a_worker_the_caller_knows_at_once(tmp_path: Path) -> None:
    with running_valkey() as valkey:
        async with PreExecutionHook(valkey.url) as hook:
            answered = await ask(hook, MIGRATION)
        ran = await asyncio.to_thread(shim, valkey.url, {"session_id": "s", "message": MIGRATION})
    assert answered.told == (Outcome.TIMEOUT, Reason.NO_WORKER, Engine.NONE, False)
    assert answered.result.prefix(MIGRATION) == MIGRATION
    assert answered.seconds < NOISE_S
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


async def test_without_any_queue_the_caller_knows_at_once(tmp_path: Path) -> None:
    url = f"unix://{tmp_path}/nobody.sock"
    async with PreExecutionHook(url) as hook:
        answered = await ask(hook, MIGRATION)
    ran = await asyncio.to_thread(shim, url, {"session_id": "s", "message": MIGRATION})
    assert answered.told == (Outcome.ERROR, Reason.QUEUE_UNAVAILABLE, Engine.NONE, False)
    assert answered.seconds < NOISE_S
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


async def test_a_frozen_worker_is_noticed_and_its_jobs_are_taken_back(worker: Stack, hook: PreExecutionHook) -> None:
    session = uuid.uuid4().hex
    with worker.frozen():
        stuck = [await ask(hook, MIGRATION, session_id=session, attempts=1) for _ in range(3)]
        await asyncio.sleep(ALIVE_S)
        dead = await ask(hook, MIGRATION, session_id=session)
    for answered in stuck:
        assert answered.told == (Outcome.TIMEOUT, Reason.NO_ACK, Engine.NONE, False)
        assert answered.seconds < NOTICED_S + NOISE_S
    assert dead.told[:2] == (Outcome.TIMEOUT, Reason.NO_WORKER)
    await ask_until(hook, MIGRATION, within=5.0, mode="deterministic")
    assert await receipts_of(worker.url, session) == 0
    assert (await ask(hook, MIGRATION, session_id=session, mode="deterministic")).ids == ["alembic"]


async def test_an_answer_that_comes_too_late_is_not_counted_as_shown(
    worker: Stack, hook: PreExecutionHook, model: ModelServer
) -> None:
    model.behave(delay=0.4)
    session = uuid.uuid4().hex
    asked = asyncio.create_task(ask(hook, MIGRATION, session_id=session, deadline_ms=1200))
    await asyncio.sleep(0.2)
    with worker.frozen():
        late = await asked
    assert late.told == (Outcome.TIMEOUT, Reason.DEADLINE, Engine.NONE, False)
    await ask_until(hook, MIGRATION, within=5.0, mode="deterministic")
    assert (await ask(hook, MIGRATION, session_id=session, mode="deterministic")).ids == ["alembic"]


async def test_the_stand_alone_hook_is_silent_when_the_worker_is_frozen(worker: Stack) -> None:
    request = {"session_id": "s", "message": MIGRATION, "scope": {"tenant": "acme"}, "mode": "deterministic"}
    with worker.frozen():
        started = time.monotonic()
        ran = await asyncio.to_thread(shim, worker.url, request)
        seconds = time.monotonic() - started
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert seconds < NOTICED_S + 2 * NOISE_S


async def test_a_worker_killed_in_mid_job_costs_that_message_its_memory_only(
    worker: Stack, hook: PreExecutionHook, model: ModelServer
) -> None:
    model.behave(mode="hang")
    asked = asyncio.create_task(ask(hook, MIGRATION, deadline_ms=1500))
    request = {"session_id": "s", "message": MIGRATION, "scope": {"tenant": "acme"}, "deadline_ms": 1500}
    piped = asyncio.create_task(asyncio.to_thread(shim, worker.url, request))
    await asyncio.sleep(0.4)
    worker.kill()
    answered, ran = await asked, await piped
    assert answered.result.outcome in {Outcome.TIMEOUT, Outcome.ERROR}
    assert answered.result.prefix(MIGRATION) == MIGRATION
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    model.behave(mode="ok")
    worker.start()
    again = await ask(hook, INVOICES)
    assert again.told == (Outcome.INJECTED, None, Engine.LLM, False)
    assert await exported(worker.url) == {memory["id"]: memory["content"] for memory in FACTS}


async def test_a_worker_killed_on_a_queue_that_stays_leaves_no_trace(tmp_path: Path) -> None:
    with running_valkey() as valkey:
        arguments = ("--redis-url", valkey.url, "worker", "--model", "none")
        with running_stack(tmp_path, *arguments) as worker:
            await put(valkey.url, FACTS)
            async with PreExecutionHook(valkey.url) as hook:
                worker.kill()
                answered = await ask(hook, MIGRATION, attempts=1)
                assert answered.told[:2] == (Outcome.TIMEOUT, Reason.NO_ACK)
                assert answered.seconds < NOTICED_S + NOISE_S
                await asyncio.sleep(ALIVE_S)
                assert (await ask(hook, MIGRATION)).told[:2] == (Outcome.TIMEOUT, Reason.NO_WORKER)
                worker.start()
                assert (await ask(hook, MIGRATION)).ids == ["alembic"]
            assert worker.stop() == 0


async def test_a_worker_told_to_stop_answers_first(worker: Stack, hook: PreExecutionHook, model: ModelServer) -> None:
    model.behave(delay=1.0)
    asked = asyncio.create_task(ask(hook, MIGRATION, deadline_ms=3000))
    await asyncio.sleep(0.4)
    assert worker.process is not None
    worker.process.terminate()
    answered = await asked
    assert answered.told == (Outcome.INJECTED, None, Engine.LLM, False)
    assert await asyncio.to_thread(worker.wait) == 0
    assert (await ask(hook, MIGRATION)).told[:2] == (Outcome.ERROR, Reason.QUEUE_UNAVAILABLE)
