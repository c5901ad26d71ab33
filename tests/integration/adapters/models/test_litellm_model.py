"""The model adapter against a faulty server, through the real LiteLLM."""

import asyncio
import json
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from hooks.contract import Reason
from tests.support.upstream import Answer, Mode, Upstream, always, keeping, script
from worker.adapters.models.litellm_process import prepare_environment
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatRequest, ToolCall
from worker.ports.models import ChatModel
from worker.triage.chat_prompt import RECALL_TOOL

if TYPE_CHECKING:
    from worker.adapters.models.litellm_chat import LiteLLMModel


Make = Callable[..., Awaitable["LiteLLMModel"]]
PROVIDERS = ["openai", "ollama_chat"]
SECRET = "zebra-striped-sentinel"
SCHEMA = {"type": "object", "properties": {"relevant": {"type": "array", "items": {"type": "integer"}}}}
FAULTS = {
    Mode.ERROR_500: Reason.MODEL_ERROR,
    Mode.ERROR_400: Reason.MODEL_ERROR,
    Mode.ERROR_401: Reason.MODEL_ERROR,
    Mode.RATE_LIMIT: Reason.MODEL_RATE_LIMITED,
    Mode.GARBAGE: Reason.MODEL_ERROR,
    Mode.EMPTY_OBJECT: Reason.MODEL_ERROR,
    Mode.NO_CHOICES: Reason.MODEL_ERROR,
    Mode.NULL_MESSAGE: Reason.MODEL_ERROR,
    Mode.DISCONNECT: Reason.MODEL_UNREACHABLE,
    Mode.HANG: Reason.MODEL_TIMEOUT,
    Mode.DRIP: Reason.MODEL_TIMEOUT,
}


def ask(text: str = "hi", **shape: object) -> ChatRequest:
    return ChatRequest(messages=({"role": "user", "content": text},), **shape)  # type: ignore[arg-type]


@pytest.fixture
async def upstream() -> AsyncIterator[Upstream]:
    async with Upstream() as server:
        yield server


@pytest.fixture
async def make(upstream: Upstream) -> AsyncIterator[Make]:
    """Make models of a provider on the fake server, each connected by one successful call."""
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_chat import LiteLLMModel

    models: list[ChatModel] = []

    async def connected(provider: str = "openai", name: str = "m", **options: object) -> "LiteLLMModel":
        base = upstream.url + ("" if provider == "ollama_chat" else "/v1")
        model = LiteLLMModel(f"{provider}/{name}", api_base=base, **options)  # type: ignore[arg-type]
        models.append(model)
        await model.complete(ask(), Deadline.after(30))
        upstream.requests.clear()
        return model

    yield connected
    for model in models:
        await model.aclose()


async def fails(model: ChatModel, seconds: float = 10.0, request: ChatRequest | None = None) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await model.complete(request or ask(), Deadline.after(seconds))
    return caught.value


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("mode", list(FAULTS))
async def test_a_failed_call_is_one_request_and_one_named_reason(
    make: Make, upstream: Upstream, provider: str, mode: Mode
) -> None:
    model = await make(provider, api_key="sk-very-private")
    upstream.mode = mode
    error = await fails(model, 0.4 if FAULTS[mode] is Reason.MODEL_TIMEOUT else 10.0)
    assert error.reason is FAULTS[mode]
    await asyncio.sleep(0.2)
    assert len(upstream.requests) == 1
    shown = f"{error!r} {error.__cause__!r}"
    assert "secret-body" not in shown
    assert "sk-very-private" not in shown


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_refused_connection_is_named(make: Make, upstream: Upstream, provider: str) -> None:
    model = await make(provider)
    await upstream.__aexit__()
    started = time.monotonic()
    assert (await fails(model)).reason is Reason.MODEL_UNREACHABLE
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("mode", [Mode.HANG, Mode.DRIP])
async def test_the_deadline_is_kept(make: Make, upstream: Upstream, provider: str, mode: Mode) -> None:
    model = await make(provider)
    upstream.mode = mode
    late = []
    for _ in range(5):
        deadline = Deadline.after(0.3)
        await fails(model, deadline.remaining())
        late.append(time.monotonic() - deadline.at)
    assert statistics.median(late) < 0.1  # slack: 100 ms


async def test_no_time_is_no_request(make: Make, upstream: Upstream) -> None:
    model = await make()
    assert (await fails(model, 0.0)).reason is Reason.MODEL_NO_TIME
    assert upstream.requests == []


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_cancelling_closes_the_connection_at_once(make: Make, upstream: Upstream, provider: str) -> None:
    model = await make(provider)
    upstream.mode = Mode.HANG
    delays = []
    for number in range(1, 6):
        call = asyncio.create_task(model.complete(ask(), Deadline.after(30)))
        while len(upstream.requests) < number:
            await asyncio.sleep(0.005)
        cancelled_at = time.monotonic()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        async with asyncio.timeout(5):
            while len(upstream.disconnects) < number:
                await asyncio.sleep(0.005)
        delays.append(upstream.disconnects[-1] - cancelled_at)
    assert statistics.median(delays) < 0.1


async def test_a_hanging_ollama_never_stalls_the_event_loop(make: Make, upstream: Upstream) -> None:
    upstream.show_delay = 30.0
    model = await make("ollama_chat", name="not-in-any-list")
    lags: list[float] = []

    async def heartbeat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            lags.append(time.monotonic() - before - 0.01)

    beating = asyncio.create_task(heartbeat())
    for _ in range(10):
        await model.complete(ask(), Deadline.after(10))
    await asyncio.sleep(0.3)
    beating.cancel()
    assert statistics.quantiles(lags, n=20)[-1] < 0.05
    assert max(lags) < 2.0  # a stalled loop would wait for the 30 seconds
    assert [r.path for r in upstream.requests] == ["/api/chat"] * 10


async def test_calls_share_connections_and_leak_no_file_descriptors(make: Make, upstream: Upstream) -> None:
    models = [await make(provider) for provider in PROVIDERS]
    for model in models:
        await model.complete(ask(), Deadline.after(10))
    descriptors, connections = _open_descriptors(), upstream.connections
    for number in range(100):
        for model in models:
            await model.complete(ask(), Deadline.after(5 + number / 100))
    assert len(upstream.requests) >= 200
    assert _open_descriptors() - descriptors <= 2
    assert upstream.connections - connections <= 2


@pytest.mark.slow
async def test_hundreds_of_calls_leave_no_file_descriptor_and_no_task_behind(make: Make, upstream: Upstream) -> None:
    """Call two models, eight calls at a time, some of which fail."""
    models = [await make("openai", max_concurrent=4), await make("ollama_chat", max_concurrent=4)]

    async def calls(model: ChatModel, count: int) -> int:
        answered = 0
        for _ in range(count):
            try:
                answered += bool((await model.complete(ask(), Deadline.after(20))).text)
            except ModelError:
                continue
        return answered

    async def round_of_calls(count: int, mode: Mode) -> tuple[int, int]:
        upstream.mode = mode
        answered = await asyncio.gather(*(calls(model, count) for model in models for _ in range(4)))
        assert sum(answered) == (8 * count if mode is Mode.OK else 0)
        assert len(upstream.requests) == 8 * count
        upstream.requests.clear()
        await asyncio.sleep(0.2)
        return _open_descriptors(), len(asyncio.all_tasks())

    descriptors, tasks = await round_of_calls(10, Mode.OK)
    for mode in (Mode.OK, Mode.ERROR_500, Mode.OK, Mode.GARBAGE, Mode.OK):
        latest = await round_of_calls(10 if mode is Mode.OK else 5, mode)
    assert latest[0] - descriptors <= 4
    assert latest[1] - tasks <= 4


async def test_cancelled_calls_leave_nothing_behind(make: Make, upstream: Upstream) -> None:
    model = await make()
    descriptors, tasks = _open_descriptors(), len(asyncio.all_tasks())
    upstream.mode = Mode.HANG
    for _ in range(30):
        await fails(model, 0.03)
    upstream.mode = Mode.OK
    await asyncio.sleep(0.3)
    assert (await model.complete(ask(), Deadline.after(10))).text
    assert _open_descriptors() - descriptors <= 2
    assert len(asyncio.all_tasks()) - tasks <= 2


def _open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_ollama_is_told_the_window_and_not_to_think(make: Make, upstream: Upstream) -> None:
    model = await make("ollama_chat", num_ctx=4096, keep_alive="7m")
    await model.complete(ask(schema=SCHEMA, max_tokens=33), Deadline.after(10))
    body = upstream.requests[-1].body
    assert body["options"] == {"temperature": 0.0, "num_predict": 33, "num_ctx": 4096}
    assert (body["keep_alive"], body["think"], body["stream"], body["format"]) == ("7m", False, False, SCHEMA)


async def test_openai_is_told_the_schema(make: Make, upstream: Upstream) -> None:
    model = await make(extra_body={"cache_prompt": True})
    await model.complete(ask(schema=SCHEMA), Deadline.after(10))
    body = upstream.requests[-1].body
    assert body["response_format"]["json_schema"]["schema"] == SCHEMA
    assert (body["temperature"], body["max_tokens"], body["cache_prompt"]) == (0.0, 64, True)
    assert "tools" not in body


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tools_never_go_with_a_schema(make: Make, upstream: Upstream, provider: str) -> None:
    model = await make(provider)
    upstream.respond = script([Answer(tool_calls=(("recall", {"query": "organ"}),), finish_reason="tool_calls")])
    reply = await model.complete(ask(tools=(RECALL_TOOL,), schema=SCHEMA), Deadline.after(10))
    assert [(c.name, c.arguments.replace(" ", "")) for c in reply.tool_calls] == [("recall", '{"query":"organ"}')]
    assert all(isinstance(call, ToolCall) and call.id for call in reply.tool_calls)
    body = upstream.requests[-1].body
    assert body["tools"][0]["function"]["name"] == "recall"
    assert "response_format" not in body
    assert "format" not in body


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_tool_call_in_the_text_stays_text(make: Make, upstream: Upstream, provider: str) -> None:
    model = await make(provider)
    text = '{"name":"recall","arguments":{"query":"twins dentist"}}'
    upstream.respond = always(text)
    reply = await model.complete(ask(tools=(RECALL_TOOL,)), Deadline.after(10))
    assert (reply.text, reply.tool_calls) == (text, ())


async def test_tokens_and_cost_are_told_where_they_are_known(make: Make, upstream: Upstream) -> None:
    for provider, name, cost in (("openai", "unheard-of", None), ("ollama_chat", "unheard-of", 0.0)):
        usage = (await (await make(provider, name)).complete(ask(), Deadline.after(10))).usage
        assert usage is not None
        assert (usage.input_tokens, usage.output_tokens, usage.cost) == (10, 3, cost)
    usage = (await (await make("openai", "gpt-4o-mini")).complete(ask(), Deadline.after(10))).usage
    assert usage is not None
    assert usage.cached_tokens == 4
    assert usage.cost is not None
    assert 0 < usage.cost < 0.001


@pytest.mark.parametrize(
    "answer", [Answer("", finish_reason="content_filter"), Answer("", refusal="No."), Answer("x", refusal="No.")]
)
async def test_a_refusal_is_named(make: Make, upstream: Upstream, answer: Answer) -> None:
    model = await make()
    upstream.respond = script([answer])
    assert (await fails(model)).reason is Reason.MODEL_REFUSED


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_cut_answer_says_so(make: Make, upstream: Upstream, provider: str) -> None:
    model = await make(provider)
    upstream.respond = script([Answer('{"relevant":[1', finish_reason="length")])
    reply = await model.complete(ask(), Deadline.after(10))
    assert (reply.text, reply.finish_reason) == ('{"relevant":[1', "length")


async def test_waiting_for_a_slot_counts_against_the_deadline(make: Make, upstream: Upstream) -> None:
    model = await make(max_concurrent=1)
    upstream.delay = 1.0
    first = asyncio.create_task(model.complete(ask(), Deadline.after(30)))
    await asyncio.sleep(0.05)
    assert (await fails(model, 0.3)).reason is Reason.MODEL_TIMEOUT
    assert len(upstream.requests) == 1
    assert (await first).text


async def test_warming_up_never_fails(make: Make, upstream: Upstream) -> None:
    model = await make(warm_timeout=0.3)
    await model.warm()
    assert upstream.requests[-1].body["max_tokens"] == 1
    upstream.mode = Mode.HANG
    started = time.monotonic()
    await model.warm()
    assert time.monotonic() - started < 5
    upstream.mode = Mode.ERROR_500
    await model.warm()
    assert len(upstream.requests) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_no_prompt_text_is_logged_even_at_debug(
    make: Make, upstream: Upstream, provider: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = await make(provider)
    for mode in (Mode.OK, Mode.ERROR_500, Mode.GARBAGE, Mode.DISCONNECT):
        upstream.mode = mode
        try:
            await model.complete(ask(SECRET), Deadline.after(10))
        except ModelError:
            continue
    await asyncio.sleep(0.1)
    assert SECRET in str(upstream.requests)
    assert SECRET not in caplog.text
    assert "secret-body" not in caplog.text


async def test_the_fake_server_runs_as_a_program() -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.support.upstream", "--keep", "red binder", stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        url = json.loads(await process.stdout.readline())["url"]
        text = 'Now: 2026-01-01\n[1] "a"\n[2] "the red binder"'
        body = {"model": "m", "messages": [{"role": "user", "content": text}]}
        async with httpx.AsyncClient(base_url=url) as client:
            answer = (await client.post("/v1/chat/completions", json=body)).json()
            assert answer["choices"][0]["message"]["content"] == '{"relevant":[2],"sufficient":true}'
            await client.post("/_control", json={"mode": "error_500"})
            assert (await client.post("/v1/chat/completions", json=body)).status_code == 500
            assert [r["path"] for r in (await client.get("/_requests")).json()] == ["/v1/chat/completions"] * 2
    finally:
        process.terminate()
        await process.wait()


def test_keeping_reads_only_the_task_s_own_candidates() -> None:
    messages = [
        {"role": "user", "content": 'Now: 2025-01-01\n[1] "red binder in an example"'},
        {"role": "assistant", "content": "[]"},
        {"role": "user", "content": 'Now: 2026-01-01\n[1] "nothing"\n[2] "red binder"'},
    ]
    assert keeping(["red binder"])({"messages": messages}).text == '{"relevant":[2],"sufficient":true}'
