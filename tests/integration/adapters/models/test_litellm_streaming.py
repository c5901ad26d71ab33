"""Streamed answers through the real LiteLLM, complete and cut off at the deadline."""

import asyncio
import os
import statistics
import time
from collections.abc import AsyncIterator

import pytest

from hooks.contract import Reason
from tests.support.triage import Memories, ids, many, selector, task
from tests.support.upstream import Answer, Mode, Upstream, always, script
from worker.adapters.models.litellm_process import prepare_environment
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.memory import Recalled, Selection
from worker.domain.model_calls import ChatRequest
from worker.ports.models import ChatModel
from worker.settings.injection import InjectionConfig

TEXT = '{"relevant":[3,1],"sufficient":true}'


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream(respond=always(TEXT)) as server:
        yield server


@pytest.fixture(params=["openai", "ollama_chat"])
async def model(request: pytest.FixtureRequest, upstream: Upstream) -> AsyncIterator[ChatModel]:
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_chat import LiteLLMModel

    base = upstream.url + ("" if request.param == "ollama_chat" else "/v1")
    chat = LiteLLMModel(f"{request.param}/m", api_base=base, stream=True)
    await chat.warm()
    upstream.requests.clear()
    yield chat
    await chat.aclose()


ASK = ChatRequest(({"role": "user", "content": "hi"},))


async def choose(model: ChatModel, seconds: float) -> Selection:
    chooser = selector(model)
    return await chooser.select(
        task(), Recalled("organ", many(6)), Memories(), InjectionConfig(), Deadline.after(seconds)
    )


async def test_a_whole_answer_is_the_same_as_one_that_is_not_streamed(model: ChatModel, upstream: Upstream) -> None:
    reply = await model.complete(ASK, Deadline.after(20))
    assert (reply.text, reply.cut, reply.finish_reason) == (TEXT, False, "stop")
    assert reply.usage is not None
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (10, 3)
    assert upstream.requests[0].body["stream"] is True


async def test_numbers_that_arrived_before_the_deadline_count(model: ChatModel, upstream: Upstream) -> None:
    upstream.stall_after = len('{"relevant":[3,') // 2 + 1
    started = time.monotonic()
    selection = await choose(model, 0.6)
    assert ids(selection) == ["m3"]
    assert selection.partial
    assert time.monotonic() - started < 0.6 + 0.3  # the deadline, and slack for a busy machine
    async with asyncio.timeout(5):
        while not upstream.disconnects:
            await asyncio.sleep(0.01)
    assert len(upstream.requests) == 1


async def test_without_a_whole_number_the_deadline_is_a_timeout(model: ChatModel, upstream: Upstream) -> None:
    for pieces in (0, 3):
        upstream.stall_after = pieces
        with pytest.raises(ModelError) as caught:
            await choose(model, 0.5)
        assert caught.value.reason is Reason.MODEL_TIMEOUT


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        (Mode.ERROR_500, Reason.MODEL_ERROR),
        (Mode.RATE_LIMIT, Reason.MODEL_RATE_LIMITED),
        (Mode.HANG, Reason.MODEL_TIMEOUT),
    ],
)
async def test_a_failure_is_one_request_and_has_its_name(
    model: ChatModel, upstream: Upstream, mode: Mode, reason: Reason
) -> None:
    upstream.mode = mode
    with pytest.raises(ModelError) as caught:
        await model.complete(ASK, Deadline.after(0.5 if mode is Mode.HANG else 20))
    assert caught.value.reason is reason
    await asyncio.sleep(0.2)
    assert len(upstream.requests) == 1


async def test_a_tool_turn_is_not_streamed(model: ChatModel, upstream: Upstream) -> None:
    call = Answer(tool_calls=(("recall", {"query": "organ"}),), finish_reason="tool_calls")
    upstream.respond = script(['{"relevant":[],"sufficient":false}', call, "[1]"])
    recall = Memories({"organ": Recalled("organ", many(9)[8:])})
    selection = await selector(model).select(
        task(), Recalled("q", many(3)), recall, InjectionConfig(), Deadline.after(20)
    )
    assert ids(selection) == ["m1"]
    assert [bool(request.body.get("stream")) for request in upstream.requests] == [True, False, True]


async def test_cancelling_in_the_middle_closes_the_connection_at_once(model: ChatModel, upstream: Upstream) -> None:
    upstream.stall_after = 4
    delays = []
    for number in range(1, 6):
        call = asyncio.create_task(model.complete(ASK, Deadline.after(30)))
        while len(upstream.requests) < number:
            await asyncio.sleep(0.005)
        await asyncio.sleep(0.05)
        cancelled_at = time.monotonic()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(5):
            while len(upstream.disconnects) < number:
                await asyncio.sleep(0.005)
        delays.append(upstream.disconnects[-1] - cancelled_at)
    assert statistics.median(delays) < 0.1
