"""A real Ollama through the real LiteLLM, whatever its model answers: the quality of answers is not tested."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.command_line import command_line
from tests.support.real_servers import OLLAMA, OLLAMA_MODEL, needs
from worker.adapters.models.litellm_process import prepare_environment
from worker.adapters.models.ollama import find_chat_model
from worker.bootstrap.core import open_core
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatRequest
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import CAPTURE, CAPTURES, HEALTH, INJECT, PUT
from worker.ports.models import ChatModel
from worker.settings.injection import load_settings

PATIENCE_S = 600.0
"""How long a model on a busy processor may take for an answer that the test waits for."""

LATE_S = 0.5
"""How long after its deadline a call may end on a busy machine."""

pytestmark = [needs(OLLAMA, OLLAMA_MODEL), pytest.mark.timeout(2 * PATIENCE_S)]

REGATTA = {"id": "m1", "content": "The regatta starts at pier 6 at ten in the morning"}
QUESTION = "Where does the regatta start?"


def base() -> str:
    return os.environ[OLLAMA]


def name() -> str:
    return f"ollama_chat/{os.environ[OLLAMA_MODEL]}"


def says(text: str, tokens: int, **fields: Any) -> ChatRequest:
    return ChatRequest(messages=({"role": "user", "content": text},), max_tokens=tokens, **fields)


def opened(model: str, **options: Any) -> ChatModel:
    prepare_environment(os.environ)
    from worker.adapters.models.litellm_chat import LiteLLMModel

    return LiteLLMModel(model, api_base=base(), num_ctx=4096, **options)


@pytest.fixture
async def model() -> AsyncIterator[ChatModel]:
    """A model that is loaded; whatever it did before has ended."""
    chat = opened(name())
    await chat.complete(says("Hi", 1), Deadline.after(PATIENCE_S))
    yield chat
    await chat.aclose()


async def is_free(model: ChatModel) -> bool:
    """Whether a tiny call is answered much sooner than one that goes on in the server would end."""
    await model.complete(says("Hi", 1), Deadline.after(PATIENCE_S / 4))
    return True


async def test_a_model_is_found_without_settings() -> None:
    found = await find_chat_model(base())
    assert found is not None
    assert found.startswith("ollama_chat/")


async def test_an_answer_is_cut_at_its_tokens_and_counted(model: ChatModel) -> None:
    reply = await model.complete(says("Count to ten thousand.", 4), Deadline.after(PATIENCE_S))
    assert reply.usage is not None
    assert (reply.finish_reason, reply.usage.output_tokens, reply.usage.cost) == ("length", 4, 0.0)
    assert reply.usage.input_tokens > 4
    assert reply.text


async def test_a_schema_makes_any_model_answer_in_json(model: ChatModel) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2, 3]}}, "required": ["n"]}
    request = says("Choose one of the numbers 1, 2 and 3.", 40, schema=schema)
    reply = await model.complete(request, Deadline.after(PATIENCE_S))
    assert reply.finish_reason == "stop"
    assert json.loads(reply.text)["n"] in {1, 2, 3}


async def test_a_call_ends_at_its_deadline_and_frees_the_server(model: ChatModel) -> None:
    started = time.monotonic()
    with pytest.raises(ModelError) as caught:
        await model.complete(says("Count to ten thousand.", 3000), Deadline.after(0.5))
    assert caught.value.reason is Reason.MODEL_TIMEOUT
    assert time.monotonic() - started < 0.5 + LATE_S
    assert await is_free(model)


async def test_a_streamed_answer_is_returned_as_far_as_it_came(model: ChatModel) -> None:
    streaming = opened(name(), stream=True)
    reply = await streaming.complete(says("Count to ten thousand.", 3000), Deadline.after(20))
    assert reply.cut
    assert reply.text
    assert await is_free(model)
    await streaming.aclose()


async def test_a_cancelled_call_ends_at_once_and_frees_the_server(model: ChatModel) -> None:
    running = asyncio.create_task(model.complete(says("Count to ten thousand.", 3000), Deadline.after(PATIENCE_S)))
    await asyncio.sleep(0.5)
    running.cancel()
    started = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert time.monotonic() - started < LATE_S
    assert await is_free(model)


async def test_a_model_that_is_not_there_is_named_and_nothing_of_the_answer_is() -> None:
    missing = opened("ollama_chat/no-such-model")
    with pytest.raises(ModelError) as caught:
        await missing.complete(says("Hi", 1), Deadline.after(30))
    assert caught.value.reason is Reason.MODEL_ERROR
    assert "ollama_chat/no-such-model" in str(caught.value)
    assert "404" in str(caught.value)
    await missing.aclose()


async def served(
    folder: Path, model: str, use: Callable[[OperationClient], Awaitable[None]], url: str | None = None
) -> None:
    chat = {"model": model, "model_api_base": base(), "model_context": 4096, "cue_calls_per_day": 0}
    settings = load_settings(None, data_dir=folder, log_level="error", **chat)
    async with AsyncExitStack() as stack:
        redis: Any = connect(url) if url else None
        if redis is not None:
            stack.push_async_callback(redis.aclose)
        core = await stack.enter_async_context(open_core(settings, redis=redis))
        await use(LocalOperationClient(core.operations))


async def inject(client: OperationClient, deadline_ms: int) -> tuple[dict[str, Any], float]:
    await client.call(PUT, {"memories": [REGATTA]})
    request = {"session_id": "s1", "message": QUESTION, "deadline_ms": deadline_ms}
    started = time.monotonic()
    result = await client.call(INJECT, request, budget=deadline_ms / 1000)
    return result, time.monotonic() - started


@pytest.mark.parametrize("model", [None, "ollama_chat/no-such-model"])
async def test_a_late_or_missing_model_leaves_what_was_chosen_without_it(model: str | None, tmp_path: Path) -> None:
    reasons = {Reason.MODEL_ERROR} if model else {Reason.MODEL_TIMEOUT}

    async def use(client: OperationClient) -> None:
        result, seconds = await inject(client, 1500)
        assert [item["id"] for item in result["items"]] == ["m1"]
        assert (result["degraded"], result["reason"] in reasons) == (True, True)
        assert seconds < 1.5 + LATE_S

    await served(tmp_path, model or name(), use)


async def test_a_triage_that_may_take_its_time_ends_in_a_choice_or_a_named_reason(tmp_path: Path) -> None:
    async def use(client: OperationClient) -> None:
        result, _ = await inject(client, 60_000)
        unusable = {Reason.MODEL_UNPARSEABLE, Reason.MODEL_TRUNCATED, Reason.MODEL_TIMEOUT}
        assert result["reason"] in unusable if result["degraded"] else result["engine"] == "llm"
        assert {item["id"] for item in result["items"]} <= {"m1"}

    await served(tmp_path, name(), use)


def test_cues_are_written_or_the_memory_is_said_to_have_failed(tmp_path: Path) -> None:
    shell = command_line(tmp_path, MEESEEKS_MODEL_API_BASE=base())
    shell.ok("remember", REGATTA["content"])
    result = shell.run("enrich", "--model", name(), "--yes", "--json")
    done = json.loads(result.stdout)
    assert done["planned"]["memories"] == 1
    assert done["enriched"] + done["left"] == 1


async def test_a_capture_is_read_or_says_why_not(valkey: str, tmp_path: Path) -> None:
    async def use(client: OperationClient) -> None:
        turns = [{"role": "user", "text": "My brother Tom moves to Oslo", "at": datetime.now(UTC).isoformat()}]
        await client.call(CAPTURE, {"session_id": "s1", "user": "hana", "turns": turns, "mode": "auto"})
        end = time.monotonic() + PATIENCE_S
        while True:
            state = (await client.call(HEALTH, {}))["captures"]
            if state["waiting"] == 0 or state["failures"]:
                break
            assert time.monotonic() < end
            await asyncio.sleep(1)
        assert state["calls"] >= 1
        receipts = (await client.call(CAPTURES, {}))["captures"]
        assert receipts or state["failures"]

    await served(tmp_path, name(), use, valkey)
