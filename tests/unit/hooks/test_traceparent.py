"""The client names the caller's current span to the service."""

import asyncio
import json

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from hooks.background import LoopThread
from hooks.protocol import wire
from hooks.tracing import current_traceparent
from tests.support.tracing import PARENT, SPAN_ID, TRACE_ID


def span(flags: int = 1) -> NonRecordingSpan:
    return NonRecordingSpan(
        SpanContext(int(TRACE_ID, 16), int(SPAN_ID, 16), is_remote=False, trace_flags=TraceFlags(flags))
    )


def test_outside_of_spans_there_is_nothing_to_name() -> None:
    assert current_traceparent() is None


def test_the_current_span_is_named_also_if_it_is_not_sampled() -> None:
    with trace.use_span(span()):
        assert current_traceparent() == PARENT
    with trace.use_span(span(flags=0)):
        assert current_traceparent() == PARENT[:-1] + "0"


async def test_tasks_inherit_it() -> None:
    async def named() -> str | None:
        return current_traceparent()

    with trace.use_span(span()):
        assert await asyncio.create_task(named()) == PARENT


def test_the_blocking_client_inherits_it_from_the_calling_thread() -> None:
    async def named() -> str | None:
        return current_traceparent()

    threads = LoopThread()
    with trace.use_span(span()):
        assert threads.do(named, 5.0) == PARENT
    assert threads.do(named, 5.0) is None


@pytest.mark.parametrize(
    "given", ["", PARENT[:-1], PARENT + "0", PARENT.upper(), PARENT[:-1] + '"', PARENT[:-1] + "\n"]
)
def test_the_environment_names_a_span_or_nothing(given: str) -> None:
    assert wire.traceparent_in({"TRACEPARENT": PARENT}) == PARENT
    assert wire.traceparent_in({"TRACEPARENT": given}) is None
    assert wire.traceparent_in({}) is None


def test_a_job_carries_it() -> None:
    job = json.loads(wire.job_json("inject", b'{"a":1}', 1500, 7, PARENT))
    assert job["k"] == {"payload": {"a": 1}, "budget_ms": 1500, "traceparent": PARENT}
