"""A block counts as shown once it was sent to a caller who still waited."""

import asyncio
import contextlib
from typing import Any

import pytest

from tests.support.http import Conversation, Recorder, make_app
from worker.operations.metrics import Metrics

INJECTED = {
    "outcome": "injected",
    "memory_context": "<memory_context>\nx\n</memory_context>",
    "engine": "deterministic",
}
REQUEST = {"session_id": "s", "message": "m"}
PATHS = ["/v1/inject", "/v1/hooks/claude-code"]


def deliveries(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.text().decode().splitlines() if line.startswith("meeseeks_deliveries_total{")]
    return {line.split('"')[1]: float(line.split()[-1]) for line in lines}


def recorder(answer: Any = INJECTED) -> Recorder:
    return Recorder({"inject": answer, "host_hook": answer}, commit=("ledger", "turn"))


@pytest.mark.parametrize("path", PATHS)
async def test_a_block_is_committed_after_sending(path: str) -> None:
    seen, metrics = recorder(), Metrics()
    asked = Conversation(path, REQUEST)
    committed_before = []
    asked.before_body = lambda: committed_before.append(list(seen.committed))
    await make_app(seen, metrics=metrics)(asked.scope, asked.receive, asked.send)
    assert asked.status == 200
    assert committed_before == [[]]
    assert seen.committed == [("ledger", "turn")]
    assert deliveries(metrics) == {"committed": 1.0}


@pytest.mark.parametrize("path", PATHS)
async def test_the_operation_is_cancelled_when_the_caller_leaves(path: str) -> None:
    began, broken_off = asyncio.Event(), asyncio.Event()

    async def slow() -> dict[str, Any]:
        began.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            broken_off.set()
            raise
        return INJECTED

    seen, metrics = recorder(lambda _: slow()), Metrics()
    asked = Conversation(path, REQUEST)
    serving = asyncio.create_task(make_app(seen, metrics=metrics)(asked.scope, asked.receive, asked.send))
    await asyncio.wait_for(began.wait(), 10)
    asked.leave()
    await asyncio.wait_for(serving, 10)
    assert broken_off.is_set()
    assert seen.committed == []
    assert deliveries(metrics) == {"gone": 1.0}
    assert 'status="499"' in metrics.text().decode()


@pytest.mark.parametrize("path", PATHS)
async def test_nothing_is_committed_if_the_caller_leaves_at_the_last_moment(path: str) -> None:
    asked = Conversation(path, REQUEST)

    def answer(_: dict[str, Any]) -> dict[str, Any]:
        asked.leave()
        return INJECTED

    seen, metrics = recorder(answer), Metrics()
    await make_app(seen, metrics=metrics)(asked.scope, asked.receive, asked.send)
    assert seen.committed == []
    assert deliveries(metrics) == {"gone": 1.0}


@pytest.mark.parametrize("path", PATHS)
async def test_a_block_sent_too_late_is_not_committed(path: str) -> None:
    seen, metrics = recorder(), Metrics()
    asked = Conversation(path, REQUEST, headers={"x-deadline-ms": "300"})
    send = asked.send

    async def slow_send(message: Any) -> None:
        await asyncio.sleep(0.2)
        await send(message)

    await make_app(seen, metrics=metrics)(asked.scope, asked.receive, slow_send)
    assert asked.status == 200
    assert seen.committed == []
    assert deliveries(metrics) == {"late": 1.0}


async def test_a_result_without_a_block_commits_nothing() -> None:
    seen, metrics = Recorder({"inject": {"outcome": "none_relevant"}}), Metrics()
    asked = Conversation("/v1/inject", REQUEST)
    await make_app(seen, metrics=metrics)(asked.scope, asked.receive, asked.send)
    assert asked.status == 200
    assert deliveries(metrics) == {}


async def test_running_requests_end_with_the_process() -> None:
    began = asyncio.Event()

    async def slow() -> dict[str, Any]:
        began.set()
        await asyncio.sleep(30)
        return INJECTED

    seen = recorder(lambda _: slow())
    asked = Conversation("/v1/inject", REQUEST)
    serving = asyncio.create_task(make_app(seen)(asked.scope, asked.receive, asked.send))
    await asyncio.wait_for(began.wait(), 10)
    serving.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(serving, 10)
    assert seen.committed == []
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []
