"""Traces as an operator gets them: from the caller's span through the queue or HTTP to the model, without any text."""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest
from opentelemetry.sdk.trace import TracerProvider

from hooks import MeeseeksClient, PreExecutionHook
from tests.support.stack import (
    FACTS,
    HTTP,
    MIGRATION,
    MODEL_KEY,
    ModelServer,
    Stack,
    ask,
    assert_discreet,
    put,
    running_stack,
)
from tests.support.tracing import Received, Receiver, running_receiver

STAGES = {"query", "embed", "search", "links", "rank", "dedup", "relevance", "triage"}
SESSION = "session-of-somebody"
SERVER, CLIENT, CONSUMER = 2, 3, 5
agent = TracerProvider().get_tracer("agent")


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with running_receiver() as receiver:
        yield receiver


@pytest.fixture(scope="module")
def stack(model_server: ModelServer, receiver: Receiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    variables = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    variables |= {"MEESEEKS_MODEL_API_KEY": MODEL_KEY, **HTTP}
    with running_stack(tmp_path_factory.mktemp("traced"), "up", *model_server.options, **variables) as stack:
        asyncio.run(put(stack.url, FACTS))
        yield stack
        assert_discreet(stack.log)


def traces(receiver: Receiver, trace_id: int, last: str) -> dict[str, Received]:
    """Return the spans of a trace by name, once the one that ends last has come."""
    wanted = f"{trace_id:032x}"
    receiver.wait_for(lambda spans: any(span.name == last and span.trace_id == wanted for span in spans))
    return {span.name: span for span in receiver.spans() if span.trace_id == wanted}


def assert_nested(spans: dict[str, Received], path: Sequence[str]) -> None:
    """Each span of the path is below the one before it, also in time."""
    for outer, inner in pairwise(path):
        assert spans[inner].parent_id == spans[outer].span_id, (outer, inner)
        assert spans[outer].start <= spans[inner].start <= spans[inner].end <= spans[outer].end, (outer, inner)


async def test_a_trace_goes_from_the_hook_through_the_queue_to_the_model(
    stack: Stack, receiver: Receiver, model: ModelServer
) -> None:
    async with PreExecutionHook(stack.url) as hook:
        with agent.start_as_current_span("agent run") as run:
            result = (await ask(hook, MIGRATION, deadline_ms=8000, attempts=1)).result
    assert result.engine == "llm"
    here = run.get_span_context()
    spans = traces(receiver, here.trace_id, "process inject")
    assert set(spans) == {"process inject", "inject", "chat scripted"} | STAGES
    assert spans["process inject"].parent_id == f"{here.span_id:016x}"
    for stage in STAGES:
        assert_nested(spans, ("process inject", "inject", stage))
    assert_nested(spans, ("triage", "chat scripted"))
    assert (spans["process inject"].kind, spans["chat scripted"].kind) == (CONSUMER, CLIENT)
    assert spans["inject"].attributes["meeseeks.receipt_id"] == result.receipt_id
    chat = spans["chat scripted"].attributes
    assert (chat["gen_ai.provider.name"], chat["server.port"]) == ("openai", model.port)
    assert chat["gen_ai.usage.input_tokens"] > 0
    assert not any(span.failed for span in spans.values())


async def test_a_trace_goes_through_http(stack: Stack, receiver: Receiver, model: ModelServer) -> None:
    async with MeeseeksClient(stack.http, timeout=10) as client:
        with agent.start_as_current_span("agent run") as run:
            result = await client.inject(
                session_id=SESSION, message=MIGRATION, scope={"tenant": "acme"}, mode="deterministic", deadline_ms=8000
            )
    assert result.memory_context
    here = run.get_span_context()
    spans = traces(receiver, here.trace_id, "POST /v1/inject")
    assert set(spans) == {"POST /v1/inject", "inject"} | STAGES - {"triage"}
    assert spans["POST /v1/inject"].parent_id == f"{here.span_id:016x}"
    assert_nested(spans, ("POST /v1/inject", "inject", "search"))
    assert spans["POST /v1/inject"].kind == SERVER


@pytest.mark.parametrize(("over_http", "outermost"), [(False, "process inject"), (True, "POST /v1/inject")])
def test_a_trace_goes_from_the_environment_of_the_command(
    stack: Stack, receiver: Receiver, model: ModelServer, over_http: bool, outermost: str
) -> None:
    request = {
        "session_id": f"{SESSION}-{over_http}",
        "message": MIGRATION,
        "scope": {"tenant": "acme"},
        "mode": "deterministic",
    }
    with agent.start_as_current_span("agent run") as run:
        here = run.get_span_context()
    named = f"00-{here.trace_id:032x}-{here.span_id:016x}-01"
    variables = {
        "TRACEPARENT": named,
        "MEESEEKS_REDIS_URL": stack.url,
        **({"MEESEEKS_URL": stack.http} if over_http else {}),
    }
    command = [sys.executable, "-m", "hooks"]
    done = subprocess.run(
        command, input=json.dumps(request), env={**os.environ, **variables}, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["memory_context"]
    spans = traces(receiver, here.trace_id, outermost)
    assert spans[outermost].parent_id == f"{here.span_id:016x}"
    assert_nested(spans, (outermost, "inject", "search"))


def test_nothing_that_anybody_said_was_sent(receiver: Receiver) -> None:
    sent = b"".join(receiver.bodies)
    assert b"gen_ai.request.model" in sent
    texts = [MIGRATION, MODEL_KEY, *(str(value) for fact in FACTS for value in (fact["content"], fact["id"]))]
    assert [text for text in (*texts, "acme", SESSION) if text.encode() in sent] == []


async def test_a_receiver_that_hangs_delays_no_answer_and_not_the_end(
    stack: Stack, receiver: Receiver, model: ModelServer
) -> None:
    receiver.asked.clear()
    receiver.hangs.set()
    async with PreExecutionHook(stack.url) as hook:
        slowest = 0.0
        for _ in range(20):
            answered = await ask(hook, MIGRATION, mode="deterministic")
            assert answered.result.memory_context
            slowest = max(slowest, answered.seconds)
    assert receiver.asked.wait(5)
    assert slowest < 1.0
    started = time.monotonic()
    stack.stop()
    assert time.monotonic() - started < 15
