"""The hook with a real queue."""

import asyncio
import json
import logging
import signal
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from hooks.contract import InjectionRequest, Outcome, Reason
from hooks.pre_execution import PreExecutionHook
from hooks.protocol import wire
from hooks.queue import QueueClient, QueueFault, Reply
from tests.support.queue_worker import running_worker
from tests.support.real_servers import REDIS_KINDS, redis_of
from tests.support.valkey import assert_keys_expire, running_valkey, sync_redis

SLACK_MS = 250
"""The contract is 10 ms; allow more on busy machines."""


@pytest.fixture(scope="module", params=REDIS_KINDS)
def valkey_url(request: pytest.FixtureRequest) -> Iterator[str]:
    with redis_of(request.param) as url:
        yield url


@pytest.fixture(scope="module")
def worker_url(valkey_url: str) -> Iterator[str]:
    with running_worker(valkey_url):
        yield valkey_url


@pytest.fixture
async def hook(worker_url: str) -> AsyncIterator[PreExecutionHook]:
    async with PreExecutionHook(worker_url) as hook:
        yield hook


def offer(url: str, ledger: str, turn_id: str) -> None:
    with sync_redis(url) as redis:
        shown = {"m1": {"version": 1, "turn": 1, "block_id": "b"}}
        redis.hset(ledger, "t:" + turn_id, json.dumps({"n": 1, "shown": shown, "committed": False}))
        redis.expire(ledger, 60)


def shown_by(url: str, ledger: str) -> dict[bytes, bytes]:
    with sync_redis(url) as redis:
        return {field: value for field, value in redis.hgetall(ledger).items() if field.startswith(b"m:")}


async def test_a_block_is_returned_and_marked_as_shown(hook: PreExecutionHook, worker_url: str) -> None:
    offer(worker_url, "ledger-1", "t1")
    result = await hook({"session_id": "s", "message": "hi", "turn_id": "t1", "scope": {"project": "ledger-1"}})
    assert result.outcome is Outcome.INJECTED
    assert result.prefix("hi") == "<memory_context>hi</memory_context>\n\nhi"
    assert 0 < result.elapsed_ms < 3000
    assert json.loads(shown_by(worker_url, "ledger-1")[b"m:m1"])["block_id"] == "b"


async def test_a_block_is_returned_even_if_the_ledger_fails(
    hook: PreExecutionHook, caplog: pytest.LogCaptureFixture
) -> None:
    request = {"session_id": "s", "message": "private words", "turn_id": "t", "scope": {"project": "no-such-ledger"}}
    with caplog.at_level(logging.DEBUG):
        assert (await hook(request)).outcome is Outcome.INJECTED
    assert "could not mark an injected block as shown" in caplog.text
    assert "private" not in caplog.text


async def test_prefix(hook: PreExecutionHook) -> None:
    assert await hook.prefix("hi", session_id="s") == "<memory_context>hi</memory_context>\n\nhi"
    assert await hook.prefix("hi", session_id="nothing") == "hi"
    assert await hook.prefix("hi", session_id="s", deadline_ms="bad") == "hi"


async def test_invalid_text_becomes_valid(hook: PreExecutionHook) -> None:
    result = await hook({"session_id": "s", "message": "a\ud800\0b"})
    assert result.memory_context == "<memory_context>a\ufffd\0b</memory_context>"


async def test_an_unknown_answer_is_a_bad_reply(hook: PreExecutionHook) -> None:
    result = await hook({"session_id": "broken", "message": "hi"})
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.BAD_REPLY)


@pytest.mark.parametrize("deadline_ms", [20, 200, 1000])
async def test_the_deadline_holds(hook: PreExecutionHook, deadline_ms: int) -> None:
    start = time.monotonic()
    result = await hook({"session_id": "slow", "message": "hi", "deadline_ms": deadline_ms, "turn_id": "t"})
    elapsed_ms = (time.monotonic() - start) * 1000
    assert result.outcome in (Outcome.TIMEOUT, Outcome.ERROR)
    assert elapsed_ms < deadline_ms + SLACK_MS
    assert result.elapsed_ms <= elapsed_ms


async def test_a_slow_answer_is_a_timeout_with_its_reason(hook: PreExecutionHook) -> None:
    request = InjectionRequest(session_id="slow", message="hi", deadline_ms=1000)
    result = await hook(request)
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, Reason.DEADLINE)
    assert result.turn_id == request.turn_id


@pytest.mark.parametrize("request_", [{}, {"session_id": "s"}, {"session_id": 7, "message": []}, {"message": "m"}])
async def test_a_bad_request_is_an_outcome(hook: PreExecutionHook, request_: dict[str, Any]) -> None:
    result = await hook(request_)
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.BAD_REQUEST)


async def test_a_missing_worker_or_redis_has_a_reason(valkey_url: str) -> None:
    with running_valkey() as empty:
        async with PreExecutionHook(empty.url) as hook:
            nobody = await hook({"session_id": "s", "message": "hi"})
            empty.stop()
            nothing = await hook({"session_id": "s", "message": "hi"})
    assert (nobody.outcome, nobody.reason) == (Outcome.TIMEOUT, Reason.NO_WORKER)
    assert (nothing.outcome, nothing.reason) == (Outcome.ERROR, Reason.QUEUE_UNAVAILABLE)


async def test_a_frozen_worker_is_no_ack() -> None:
    with running_valkey() as valkey, running_worker(valkey.url) as worker:
        worker.send_signal(signal.SIGSTOP)
        async with PreExecutionHook(valkey.url) as hook:
            result = await hook({"session_id": "s", "message": "hi"})
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, Reason.NO_ACK)
    assert result.elapsed_ms < (wire.ACK_TIMEOUT + wire.GIVE_UP_TIMEOUT) * 1000 + SLACK_MS


async def test_twenty_concurrent_calls(hook: PreExecutionHook, worker_url: str) -> None:
    results = await asyncio.gather(*(hook({"session_id": "s", "message": f"m{n}"}) for n in range(20)))
    assert [result.memory_context for result in results] == [
        f"<memory_context>m{n}</memory_context>" for n in range(20)
    ]
    assert_keys_expire(worker_url)


async def test_cancellation_is_not_swallowed(hook: PreExecutionHook) -> None:
    asked = asyncio.create_task(hook({"session_id": "slow", "message": "hi"}))
    await asyncio.sleep(0.1)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


class Scripted(QueueClient):
    """A queue with a scripted answer."""

    def __init__(self, answer: Reply | Exception) -> None:
        super().__init__("unix:///nowhere")
        self.answer = answer

    async def ask(self, *_: Any, **__: Any) -> Reply:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    ("answer", "outcome", "reason"),
    [
        (QueueFault(Reason.BUSY), Outcome.TIMEOUT, Reason.BUSY),
        (QueueFault(Reason.STORE_UNAVAILABLE, "down"), Outcome.ERROR, Reason.STORE_UNAVAILABLE),
        (QueueFault(Reason.INTERNAL, "KeyError"), Outcome.ERROR, Reason.INTERNAL),
        (RuntimeError("private words"), Outcome.ERROR, Reason.INTERNAL),
    ],
)
async def test_every_fault_has_an_outcome_and_is_logged_without_text(
    answer: Exception, outcome: Outcome, reason: Reason, caplog: pytest.LogCaptureFixture
) -> None:
    result = await PreExecutionHook(queue=Scripted(answer))({"session_id": "s", "message": "private words"})
    assert (result.outcome, result.reason) == (outcome, reason)
    assert "private" not in caplog.text
    assert reason.value in caplog.text
