"""The master of a replicated Redis is killed or frozen; sentinels name another, and hook and worker follow."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from hooks import Outcome, PreExecutionHook, Reason
from tests.support.queue_worker import running_worker
from tests.support.redis_servers import PASSWORD, SENTINEL_PASSWORD, Replicated, replicated
from tests.support.stack import (
    MIGRATION,
    Answered,
    Stack,
    ask,
    ask_until,
    discreet_worker,
    frozen,
)

BACK_WITHIN_S = 15.0
"""Seconds for the sentinels to agree and promote the replica, and for the worker to notice that a server hangs."""

EVERY_S = 0.05
WITHOUT_MEMORY = {Reason.QUEUE_UNAVAILABLE, Reason.NO_WORKER, Reason.NO_ACK, Reason.DEADLINE}


@pytest.fixture(scope="module")
def group() -> Iterator[Replicated]:
    with replicated() as servers:
        yield servers


@pytest.fixture(scope="module")
def worker(group: Replicated, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with discreet_worker(tmp_path_factory.mktemp("worker"), group.url(), MEESEEKS_EMBEDDER="none") as stack:
        yield stack
    for secret in (PASSWORD, SENTINEL_PASSWORD):
        assert secret not in stack.log + str(stack.about)


async def asked_until_back(hook: PreExecutionHook) -> list[Answered]:
    """Ask again and again until memories come after a time without; every answer."""
    loop = asyncio.get_running_loop()
    end, answers = loop.time() + BACK_WITHIN_S, list[Answered]()
    while True:
        answers.append(await ask(hook, MIGRATION, attempts=1))
        lost = any(answer.result.outcome is not Outcome.INJECTED for answer in answers)
        if lost and answers[-1].result.outcome is Outcome.INJECTED:
            return answers
        assert loop.time() < end, Counter(answer.told for answer in answers)
        await asyncio.sleep(EVERY_S)


def assert_only_memory_was_missing(answers: list[Answered]) -> None:
    between = [answer for answer in answers if answer.result.outcome is not Outcome.INJECTED]
    assert {answer.result.reason for answer in between} <= WITHOUT_MEMORY
    assert Reason.QUEUE_UNAVAILABLE in {answer.result.reason for answer in between}
    assert all(answer.result.prefix(MIGRATION) == MIGRATION for answer in between)


async def test_a_killed_master_costs_seconds_of_memory_and_no_ledger(group: Replicated, worker: Stack) -> None:
    master = await asyncio.to_thread(group.master)
    session = uuid.uuid4().hex
    async with PreExecutionHook(group.url()) as hook:
        assert (await ask(hook, MIGRATION, session_id=session)).ids == ["alembic"]
        with master.client() as client:
            await asyncio.to_thread(client.wait, 1, 2000)
        master.kill()
        assert_only_memory_was_missing(await asked_until_back(hook))
        assert (await ask(hook, MIGRATION, session_id=session)).told[1] == Reason.ALREADY_SHOWN
    assert await asyncio.to_thread(group.master) is not master


async def test_a_frozen_master_is_given_up_and_is_no_second_one_later() -> None:
    with replicated() as group, running_worker(group.url(), wait=False):
        master = await asyncio.to_thread(group.master)
        assert master.process is not None
        async with PreExecutionHook(group.url()) as hook:
            await ask_until(hook, MIGRATION, within=BACK_WITHIN_S)
            with frozen(master.process.pid):
                assert_only_memory_was_missing(await asked_until_back(hook))
            assert await asyncio.to_thread(group.master) is not master
            assert (await ask(hook, MIGRATION)).result.outcome is Outcome.INJECTED
