"""Spans of jobs, operations and HTTP requests: what they are below, what they say, and what they never say."""

import time
from typing import Any

import httpx
import pytest

from hooks.contract import Engine, InjectedItem, InjectionResult, Outcome, Reason
from tests.support.http import Recorder, calling, make_app
from tests.support.tracing import PARENT, SPAN_ID, Recording, id_of, parent_of
from worker.domain.deadline import Deadline
from worker.domain.errors import StoreError
from worker.domain.operation import AnyHandler, by_name
from worker.injection.capacity import Capacity
from worker.operations.job import job_function
from worker.operations.registry import HEALTH, INJECT
from worker.operations.tracing import traced
from worker.ports.tracing import NO_TRACER

SECRET = "words that nobody may send"
REQUEST = {"session_id": "session-of-somebody", "message": SECRET}
ITEM = InjectedItem(id="m1", type="fact", text=SECRET)
INJECTED = InjectionResult(
    outcome=Outcome.INJECTED, engine=Engine.LLM, memory_context=SECRET, items=(ITEM,), receipt_id="r1"
)


class Channel:
    """A queue in which every job has waited for a second."""

    def enqueued_at(self, job_id: str) -> float:
        return time.monotonic() - 1.0

    async def send(self, job_id: str, answer: bytes) -> None:
        pass


@pytest.fixture
def recording() -> Recording:
    return Recording()


def answering(result: object) -> AnyHandler:
    async def run(request: object, deadline: Deadline) -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    return INJECT.bind(run)


async def run_job(recording: Recording, result: object, **more: object) -> None:
    handler = traced(by_name([answering(result)]), recording.tracer)["inject"]
    job = job_function(handler, Channel(), Capacity(), recording.tracer)
    await job({"job_id": "j"}, **{"payload": REQUEST, "budget_ms": 3000, **more})


async def test_a_job_continues_the_callers_trace_from_when_it_was_put_into_the_queue(recording: Recording) -> None:
    await run_job(recording, INJECTED, traceparent=PARENT)
    job, operation = recording.one("process inject"), recording.one("inject")
    assert (parent_of(job), parent_of(operation)) == (SPAN_ID, id_of(job))
    assert job.start_time is not None
    assert operation.start_time is not None
    assert 0.9e9 < operation.start_time - job.start_time < 1.5e9


@pytest.mark.parametrize("traceparent", [None, 7, {"a": 1}, "nonsense", ""])
async def test_a_job_without_a_valid_traceparent_begins_a_trace(recording: Recording, traceparent: object) -> None:
    await run_job(recording, INJECTED, traceparent=traceparent)
    assert parent_of(recording.one("process inject")) is None


async def test_an_injection_says_what_came_of_it_and_no_text(recording: Recording) -> None:
    await run_job(recording, INJECTED)
    assert dict(recording.one("inject").attributes or {}) == {
        "meeseeks.operation": "inject",
        "meeseeks.outcome": "injected",
        "meeseeks.engine": "llm",
        "meeseeks.degraded": False,
        "meeseeks.memories": 1,
        "meeseeks.receipt_id": "r1",
    }
    assert not any(word in span.to_json() for span in recording.spans for word in (SECRET, "session-of-somebody", "m1"))


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (InjectionResult.nothing(Outcome.ERROR, Reason.STORE_UNAVAILABLE), "store_unavailable"),
        (InjectionResult.nothing(Outcome.TIMEOUT, Reason.DEADLINE), "deadline"),
        (StoreError(SECRET), "store_unavailable"),
    ],
)
async def test_a_failure_is_named_by_its_reason(recording: Recording, result: object, reason: str) -> None:
    await run_job(recording, result)
    span = recording.one("inject")
    assert span.attributes is not None
    assert span.attributes["error.type"] == reason
    assert not span.status.is_ok
    assert SECRET not in span.to_json()


async def test_a_job_that_comes_too_late_is_a_failed_span(recording: Recording) -> None:
    await run_job(recording, INJECTED, budget_ms=500)
    (span,) = recording.spans
    assert span.attributes is not None
    assert span.attributes["error.type"] == "deadline"


async def test_what_monitors_repeat_is_not_traced(recording: Recording) -> None:
    async def run(request: object, deadline: Deadline) -> Any:
        return HEALTH.result.model_construct()

    handler = traced(by_name([HEALTH.bind(run)]), recording.tracer)["health"]
    await job_function(handler, Channel(), Capacity(), recording.tracer)({"job_id": "j"}, payload={}, budget_ms=3000)
    assert recording.spans == ()


def test_without_tracing_operations_are_not_wrapped() -> None:
    handlers = by_name([answering(INJECTED)])
    assert traced(handlers, NO_TRACER) is handlers


async def asked(recording: Recording, path: str, answer: object, **headers: str) -> httpx.Response:
    app = make_app(Recorder({"inject": answer, "show": answer}), tracer=recording.tracer)
    async with calling(app) as client:
        if path.startswith("/v1/memories/"):
            return await client.get(path, headers=headers)
        return await client.post(path, json=REQUEST, headers=headers)


async def test_a_request_over_http_continues_the_callers_trace(recording: Recording) -> None:
    await asked(recording, "/v1/inject", {"outcome": "none_relevant", "reason": "nothing_recalled"}, traceparent=PARENT)
    span = recording.one("POST /v1/inject")
    assert parent_of(span) == SPAN_ID
    assert dict(span.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/inject",
        "http.response.status_code": 200,
    }


async def test_ids_in_paths_are_not_sent_and_only_faults_of_the_service_fail_a_span(recording: Recording) -> None:
    assert (await asked(recording, "/v1/memories/id-of-somebody", StoreError("down"))).status_code == 503
    assert (await asked(recording, "/v1/nothing-here", {})).status_code == 404
    down, unknown = recording.spans
    assert "id-of-somebody" not in down.to_json()
    assert down.attributes is not None
    assert (down.attributes["error.type"], down.status.is_ok) == ("503", False)
    assert (unknown.name, unknown.status.is_ok) == ("POST unknown", True)


async def test_pages_health_and_metrics_are_not_traced(recording: Recording) -> None:
    async with calling(make_app(Recorder({}), tracer=recording.tracer)) as client:
        for path in ("/healthz", "/metrics", "/openapi.json"):
            await client.get(path)
    assert recording.spans == ()
