"""Spans: their parents, times, failures, and that no text of anybody gets into one."""

import time

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind as OtelKind

from hooks.contract import Reason
from hooks.tracing import current_traceparent
from tests.support.scripted_model import Say, ScriptedModel
from tests.support.tracing import PARENT, SPAN_ID, TRACE_ID, Recording, id_of, parent_of
from worker.adapters.models.traced import TracedChatModel, traced_chat
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.model_calls import ChatRequest
from worker.domain.timings import Stages
from worker.ports.tracing import NO_TRACER, SpanKind

SECRET = "words that nobody may send"
ASKED = ChatRequest(messages=({"role": "user", "content": SECRET},), schema={"type": "object"}, max_tokens=64)


@pytest.fixture
def recording() -> Recording:
    return Recording()


def seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None
    assert span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def test_a_span_is_below_the_one_around_it_and_the_outermost_below_the_callers(recording: Recording) -> None:
    tracer = recording.tracer
    with tracer.span("outer", SpanKind.CONSUMER, parent=PARENT), tracer.span("inner"):
        pass
    outer, inner = recording.one("outer"), recording.one("inner")
    assert (parent_of(outer), parent_of(inner)) == (SPAN_ID, id_of(outer))
    assert {f"{span.get_span_context().trace_id:032x}" for span in (outer, inner)} == {TRACE_ID}
    assert (outer.kind, inner.kind) == (OtelKind.CONSUMER, OtelKind.INTERNAL)


def test_what_is_asked_of_another_process_within_a_span_names_it(recording: Recording) -> None:
    with recording.tracer.span("here"):
        named = current_traceparent()
    assert named is not None
    assert named.split("-")[2] == id_of(recording.one("here"))


@pytest.mark.parametrize("parent", [None, "", "nonsense", PARENT.replace("-", "_"), "00-" + "0" * 32 + PARENT[35:]])
def test_without_a_valid_caller_a_trace_begins(recording: Recording, parent: str | None) -> None:
    with recording.tracer.span("around"), recording.tracer.span("served", SpanKind.SERVER, parent=parent):
        pass
    assert parent_of(recording.one("served")) is None


def test_what_the_caller_does_not_sample_is_not_recorded(recording: Recording) -> None:
    tracer = recording.tracer
    with tracer.span("outer", SpanKind.SERVER, parent=PARENT[:-1] + "0"), tracer.span("inner"):
        pass
    assert recording.spans == ()


def test_a_span_may_have_begun_before(recording: Recording) -> None:
    with recording.tracer.span("waited", SpanKind.CONSUMER, since=time.monotonic() - 2.0):
        pass
    assert 2.0 <= seconds(recording.one("waited")) < 2.5


def test_an_exception_makes_it_failed_without_its_words(recording: Recording) -> None:
    with pytest.raises(ValueError, match=SECRET), recording.tracer.span("outer"), recording.tracer.span("inner"):
        raise ValueError(SECRET)
    for name in ("outer", "inner"):
        span = recording.one(name)
        assert span.attributes == {"error.type": "ValueError"}
        assert not span.status.is_ok
        assert (span.status.description, span.events) == (None, ())


def test_a_named_failure_is_kept_when_its_exception_leaves(recording: Recording) -> None:
    def late() -> None:
        with recording.tracer.span("step") as span:
            span.fail("deadline")
            raise ValueError

    with pytest.raises(ValueError, match=r"^$"):
        late()
    assert recording.one("step").attributes == {"error.type": "deadline"}


def test_stages_are_spans_each_time_they_run(recording: Recording) -> None:
    stages = Stages(recording.tracer.span)
    for _ in range(2):
        with stages("search"):
            pass
    assert [span.name for span in recording.spans] == ["search", "search"]
    assert set(stages.as_dict()) == {"search"}


async def test_a_model_call_has_the_attributes_of_the_conventions(recording: Recording) -> None:
    model = TracedChatModel(
        ScriptedModel([SECRET], name="gemini/flash-9"), recording.tracer, "https://models.example/v1?key=k"
    )
    reply = await model.complete(ASKED, Deadline.after(5))
    assert reply.text == SECRET
    span = recording.one("chat flash-9")
    assert span.kind is OtelKind.CLIENT
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "gcp.gemini",
        "gen_ai.request.model": "flash-9",
        "gen_ai.request.max_tokens": 64,
        "gen_ai.request.temperature": 0.0,
        "gen_ai.output.type": "json",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "server.address": "models.example",
        "server.port": 443,
    }


async def test_a_failed_model_call_has_the_reason_and_no_words(recording: Recording) -> None:
    model = TracedChatModel(ScriptedModel([Say(error=Reason.MODEL_RATE_LIMITED)]), recording.tracer, None)
    with pytest.raises(ModelError):
        await model.complete(ASKED, Deadline.after(5))
    span = recording.one("chat model")
    assert span.attributes is not None
    assert span.attributes["error.type"] == "model_rate_limited"
    assert "scripted model_rate_limited" not in span.to_json()


def test_without_tracing_models_are_not_wrapped() -> None:
    model = ScriptedModel([""])
    assert traced_chat(model, NO_TRACER, None) is model
