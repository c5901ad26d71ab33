"""A model that hangs, fails or talks nonsense: the answer without it comes instead, in time, with the reason."""

import asyncio
import time

import pytest

from hooks import Engine, Outcome, PreExecutionHook, Reason
from tests.support.stack import INVOICES, KEEP_ALL, MIGRATION, NOISE_S, ModelServer, ask
from worker.triage.breaker import CircuitBreaker

DEADLINE_MS = 1200


@pytest.fixture(autouse=True)
async def _unpaused(hook: PreExecutionHook, model: ModelServer) -> None:
    """The model is asked at the start of each test, whatever the one before has done to it."""
    end = time.monotonic() + CircuitBreaker().pause + 10.0
    while (await ask(hook, INVOICES)).result.engine is not Engine.LLM:
        assert time.monotonic() < end
        await asyncio.sleep(0.5)


async def degraded(hook: PreExecutionHook, model: ModelServer, reason: Reason) -> tuple[float, int]:
    """The relevance model's answer and the reason; the caller's seconds and the number of requests to the model."""
    before = len(model.chats())
    answered = await ask(hook, MIGRATION, deadline_ms=DEADLINE_MS)
    assert answered.told == (Outcome.INJECTED, reason, Engine.RELEVANCE_MODEL, True)
    assert answered.ids == ["alembic"]
    return answered.seconds, len(model.chats()) - before


async def assert_served_as_usual(hook: PreExecutionHook, model: ModelServer) -> None:
    """The next request is the model's again, which also ends a row of failures."""
    model.behave(mode="ok", delay=0.0, keep=KEEP_ALL)
    answered = await ask(hook, INVOICES)
    assert answered.told == (Outcome.INJECTED, None, Engine.LLM, False)
    assert answered.ids == ["invoices"]


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("hang", Reason.MODEL_TIMEOUT),
        ("drip", Reason.MODEL_TIMEOUT),
        ("error_500", Reason.MODEL_ERROR),
        ("error_401", Reason.MODEL_ERROR),
        ("rate_limit", Reason.MODEL_RATE_LIMITED),
        ("garbage", Reason.MODEL_ERROR),
        ("no_choices", Reason.MODEL_ERROR),
        ("disconnect", Reason.MODEL_UNREACHABLE),
    ],
)
async def test_a_failing_call_is_made_once(
    hook: PreExecutionHook, model: ModelServer, mode: str, reason: Reason
) -> None:
    model.behave(mode=mode)
    seconds, chats = await degraded(hook, model, reason)
    assert chats == 1
    if reason is Reason.MODEL_TIMEOUT:
        assert seconds < DEADLINE_MS / 1000 - 0.1 + NOISE_S
    await assert_served_as_usual(hook, model)


async def test_a_server_that_is_not_there_is_reported_at_once(hook: PreExecutionHook, model: ModelServer) -> None:
    model.stop()
    answered = await ask(hook, MIGRATION, deadline_ms=DEADLINE_MS)
    model.start()
    assert answered.told == (Outcome.INJECTED, Reason.MODEL_UNREACHABLE, Engine.RELEVANCE_MODEL, True)
    await assert_served_as_usual(hook, model)


@pytest.mark.parametrize("answer", ["I think the first one fits best.", '{"relevant":[77,99],"sufficient":true}', ""])
async def test_an_unusable_answer_is_asked_for_once_more(
    hook: PreExecutionHook, model: ModelServer, answer: str
) -> None:
    model.behave(answer=answer)
    _, chats = await degraded(hook, model, Reason.MODEL_UNPARSEABLE)
    assert chats == 2
    await assert_served_as_usual(hook, model)


@pytest.mark.parametrize(
    "answer",
    [
        '```json\n{"relevant": [1], "sufficient": true}\n```',
        '<think>the first one, surely</think>{"relevant":[1,44]}',
        'Here you are: {"relevant":[1],"sufficient":true} Anything else?',
    ],
)
async def test_an_untidy_answer_is_understood(hook: PreExecutionHook, model: ModelServer, answer: str) -> None:
    model.behave(answer=answer)
    before = len(model.chats())
    answered = await ask(hook, MIGRATION)
    assert answered.told == (Outcome.INJECTED, None, Engine.LLM, False)
    assert answered.ids == ["alembic"]
    assert len(model.chats()) == before + 1


async def test_a_search_that_is_written_as_text_is_made(hook: PreExecutionHook, model: ModelServer) -> None:
    model.behave(answer='{"name":"recall","arguments":{"query":"invoices per country"}}')
    before = len(model.chats())
    answered = await ask(hook, MIGRATION, deadline_ms=3000)
    assert answered.told == (Outcome.INJECTED, Reason.MODEL_UNPARSEABLE, Engine.RELEVANCE_MODEL, True)
    assert "2026-DE-0042" in str(model.chats()[before + 1])
    assert len(model.chats()) - before <= 3
    await assert_served_as_usual(hook, model)


async def test_an_empty_choice_is_a_choice(hook: PreExecutionHook, model: ModelServer) -> None:
    model.behave(answer='{"relevant":[]}')
    answered = await ask(hook, MIGRATION)
    assert answered.told == (Outcome.NONE_RELEVANT, Reason.NOTHING_SELECTED, Engine.LLM, False)


async def test_requests_beside_a_hanging_model_are_not_held_up(hook: PreExecutionHook, model: ModelServer) -> None:
    model.behave(mode="hang")
    hanging = [asyncio.create_task(ask(hook, MIGRATION, deadline_ms=1500)) for _ in range(4)]
    await asyncio.sleep(0.3)
    quick = await ask(hook, INVOICES, mode="deterministic")
    assert quick.ids == ["invoices"]
    assert quick.seconds < 0.5
    assert {answered.told[1] for answered in await asyncio.gather(*hanging)} == {Reason.MODEL_TIMEOUT}
    await assert_served_as_usual(hook, model)


async def test_a_model_that_keeps_hanging_is_left_alone_for_a_while(hook: PreExecutionHook, model: ModelServer) -> None:
    breaker = CircuitBreaker()
    model.behave(mode="hang")
    for _ in range(breaker.threshold):
        await degraded(hook, model, Reason.MODEL_TIMEOUT)
    paused = time.monotonic()
    seconds, chats = await degraded(hook, model, Reason.MODEL_PAUSED)
    assert chats == 0
    assert seconds < 0.5
    model.behave(mode="ok")
    _, chats = await degraded(hook, model, Reason.MODEL_PAUSED)
    assert chats == 0
    await asyncio.sleep(breaker.pause - (time.monotonic() - paused) + 0.5)
    await assert_served_as_usual(hook, model)
