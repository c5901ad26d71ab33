"""Valkey is stopped, frozen or loses everything, below a worker and a hook that go on."""

import asyncio
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hooks import Engine, Outcome, PreExecutionHook, Reason
from tests.support.stack import (
    MIGRATION,
    NOISE_S,
    Stack,
    ask,
    ask_until,
    discreet_worker,
    frozen,
    running_stack,
)
from tests.support.valkey import running_valkey, sync_redis
from worker.adapters.redis.embedded_valkey import EmbeddedValkey

NOTICED_S = 0.250
BACK_WITHIN_S = 5.0


@pytest.fixture(scope="module")
def valkey() -> Iterator[EmbeddedValkey]:
    with running_valkey() as server:
        yield server


@pytest.fixture(scope="module")
def worker(valkey: EmbeddedValkey, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with discreet_worker(tmp_path_factory.mktemp("worker"), valkey.url) as stack:
        yield stack


@pytest.fixture
async def hook(worker: Stack, valkey: EmbeddedValkey) -> AsyncIterator[PreExecutionHook]:
    async with PreExecutionHook(valkey.url) as hook:
        await ask_until(hook, MIGRATION, within=BACK_WITHIN_S)
        yield hook


async def test_a_stopped_valkey_is_noticed_at_once(
    valkey: EmbeddedValkey, worker: Stack, hook: PreExecutionHook
) -> None:
    await asyncio.to_thread(valkey.stop)
    try:
        answered = [await ask(hook, MIGRATION) for _ in range(3)]
        await asyncio.sleep(1.0)
    finally:
        await asyncio.to_thread(valkey.start)
    for answer in answered:
        assert answer.told == (Outcome.ERROR, Reason.QUEUE_UNAVAILABLE, Engine.NONE, False)
        assert answer.seconds < NOTICED_S + NOISE_S
    await ask_until(hook, MIGRATION, within=BACK_WITHIN_S)
    assert worker.process is not None
    assert worker.process.poll() is None


async def test_a_frozen_valkey_is_not_waited_for(valkey: EmbeddedValkey, worker: Stack, hook: PreExecutionHook) -> None:
    assert valkey.pid is not None
    with frozen(valkey.pid):
        begun = asyncio.get_running_loop().time()
        answered = [await ask(hook, MIGRATION) for _ in range(3)]
        await asyncio.sleep(begun + 3.0 - asyncio.get_running_loop().time())
    for answer in answered:
        assert answer.told == (Outcome.ERROR, Reason.QUEUE_UNAVAILABLE, Engine.NONE, False)
        assert answer.seconds < NOTICED_S + NOISE_S
    await ask_until(hook, MIGRATION, within=BACK_WITHIN_S)


async def test_a_valkey_that_comes_back_empty_costs_only_the_ledger(
    valkey: EmbeddedValkey, worker: Stack, hook: PreExecutionHook
) -> None:
    session = uuid.uuid4().hex
    assert (await ask(hook, MIGRATION, session_id=session)).ids == ["alembic"]
    assert (await ask(hook, MIGRATION, session_id=session)).told[1] == Reason.ALREADY_SHOWN
    pid = worker.pid
    await asyncio.to_thread(valkey.stop)
    await asyncio.to_thread(valkey.start)
    await ask_until(hook, MIGRATION, within=BACK_WITHIN_S)
    assert (await ask(hook, MIGRATION, session_id=session)).ids == ["alembic"]
    assert worker.process is not None
    assert worker.process.poll() is None
    assert worker.pid == pid


async def test_a_valkey_lost_in_mid_job_costs_that_message_its_memory_only(
    valkey: EmbeddedValkey, worker: Stack, hook: PreExecutionHook
) -> None:
    with worker.frozen():
        asked = asyncio.create_task(ask(hook, MIGRATION))
        await asyncio.sleep(0.05)
        await asyncio.to_thread(valkey.stop)
        answered = await asked
    await asyncio.to_thread(valkey.start)
    assert answered.told == (Outcome.ERROR, Reason.QUEUE_UNAVAILABLE, Engine.NONE, False)
    assert answered.result.prefix(MIGRATION) == MIGRATION
    await ask_until(hook, MIGRATION, within=BACK_WITHIN_S)


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def test_an_embedded_valkey_ends_with_its_service_even_when_it_cannot_save(tmp_path: Path) -> None:
    with running_stack(tmp_path, "up", "--model", "none", MEESEEKS_EMBEDDER="none") as stack:
        with sync_redis(stack.url) as redis:
            pid = int(redis.info("server")["process_id"])
            redis.set("unsaved", "1")
        shutil.rmtree(tmp_path / "data")
        stack.kill()
    end = time.monotonic() + 5.0
    while runs(pid):
        assert time.monotonic() < end
        time.sleep(0.05)
