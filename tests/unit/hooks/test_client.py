"""The HTTP client never raises and is never late."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from datetime import date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks import InjectionRequest, MeeseeksClient, Outcome, Reason
from hooks.breaker import CircuitBreaker
from hooks.contract.usage import AnswerReport
from hooks.faults import AccessDenied, BadReply, BadRequest, ClientError, DeadlinePassed, ServiceUnavailable
from hooks.http.client import FAILURES, PAUSE
from hooks.http.service import SHORT_PAUSE
from tests.support.http_double import HttpDouble, running_http_double
from tests.support.paths import ROOT
from tests.support.ports import free_port
from tests.support.stack import NOISE_S

HASTY_S = 0.8
BLOCK = "<memory_context>\nnotes\n</memory_context>"
INJECTED = {"outcome": "injected", "memory_context": BLOCK, "turn_id": "t"}


@pytest.fixture
def double() -> Iterator[HttpDouble]:
    with running_http_double() as double:
        double.answer(INJECTED)
        yield double


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(double: HttpDouble, clock: Clock) -> AsyncIterator[MeeseeksClient]:
    async with MeeseeksClient(double.url, token="secret", timeout=10.0, clock=clock) as client:
        yield client


@pytest.fixture
async def hasty(double: HttpDouble, clock: Clock) -> AsyncIterator[MeeseeksClient]:
    """A client with a short timeout."""
    async with MeeseeksClient(double.url, timeout=HASTY_S, clock=clock) as client:
        yield client


async def test_inject_takes_a_model_a_mapping_or_fields(client: MeeseeksClient, double: HttpDouble) -> None:
    request = InjectionRequest(session_id="s", message="hi", turn_id="t")
    by_model = await client.inject(request)
    by_mapping = await client.inject({"session_id": "s", "message": "hi", "turn_id": "t"})
    by_fields = await client.inject(session_id="s", message="hi", turn_id="t")
    assert [r.outcome for r in (by_model, by_mapping, by_fields)] == [Outcome.INJECTED] * 3
    assert await client.prefix("hi", session_id="s") == f"{BLOCK}\n\nhi"
    assert 0 < by_model.elapsed_ms < 10_000
    sent = double.seen[0]
    assert (sent.method, sent.path) == ("POST", "/v1/inject")
    assert sent.headers["authorization"] == "Bearer secret"
    assert 0 < sent.body.pop("deadline_ms") <= 3000
    assert sent.body == request.model_dump(mode="json", exclude_none=True, exclude={"deadline_ms"})
    assert double.connections == 1


async def test_the_deadline_is_sent_to_the_service(client: MeeseeksClient, double: HttpDouble) -> None:
    await client.inject(session_id="s", message="hi", deadline_ms=2000)
    assert 1000 < double.seen[0].body["deadline_ms"] <= 2000
    assert 1000 < int(double.seen[0].headers["x-deadline-ms"]) <= 2000
    await client.recall("x")
    assert double.seen[1].headers["x-deadline-ms"] == "10000"


@pytest.mark.parametrize("fields", [{"message": " ", "mode": "off"}, {"message": "hi", "mode": "off"}])
async def test_skipped_requests_are_not_sent(
    client: MeeseeksClient, double: HttpDouble, fields: dict[str, Any]
) -> None:
    result = await client.inject(session_id="s", **fields)
    assert result.outcome is Outcome.SKIPPED
    assert double.seen == []


@pytest.mark.parametrize("mode", ["hang", "trickle"])
@pytest.mark.parametrize("deadline_ms", [30, 3000])
async def test_slow_responses_time_out(hasty: MeeseeksClient, double: HttpDouble, mode: str, deadline_ms: int) -> None:
    double.mode = mode
    started = time.monotonic()
    result = await hasty.inject(session_id="s", message="hi", deadline_ms=deadline_ms)
    assert (result.outcome, result.reason) == (Outcome.TIMEOUT, Reason.DEADLINE)
    assert time.monotonic() - started < min(HASTY_S, deadline_ms / 1000) + NOISE_S


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("close", Reason.SERVICE_UNAVAILABLE),
        ("raw", Reason.SERVICE_UNAVAILABLE),
        ("endless", Reason.BAD_REPLY),
    ],
)
async def test_broken_responses_have_a_reason(
    double: HttpDouble, mode: str, reason: Reason, caplog: pytest.LogCaptureFixture
) -> None:
    double.mode = mode
    async with MeeseeksClient(double.url, timeout=10.0) as client:
        result = await client.inject(session_id="s", message="private words")
    assert (result.outcome, result.reason) == (Outcome.ERROR, reason)
    assert result.prefix("hi") == "hi"
    assert reason.value in caplog.text
    assert "private" not in caplog.text


@pytest.fixture(scope="module")
def shared() -> Iterator[HttpDouble]:
    with running_http_double() as double:
        yield double


@given(
    st.sampled_from(["raw", "ok"]),
    st.integers(200, 599),
    st.binary(max_size=40)
    | st.sampled_from([b"HTTP/1.1 200 OK\r\n\r\n{", b"HTTP/1.1 99 x\r\n\r\n", b'{"reason": []}', b'{"outcome": null}']),
)
def test_no_response_raises(shared: HttpDouble, mode: str, status: int, body: bytes) -> None:
    shared.mode, shared.status, shared.body = mode, status, body

    async def once() -> list[Reason | None]:
        async with MeeseeksClient(shared.url, timeout=1.0) as client:
            result = await client.inject(session_id="s", message="hi")
            told = await client.event(type="session.cleared", session_id="s")
            return [result.reason, told.reason, (await client.recall("x")).reason]

    reasons = asyncio.run(once())
    assert reasons[:2] != [None, None]


async def test_a_closed_connection_is_replaced(client: MeeseeksClient, double: HttpDouble) -> None:
    await client.inject(session_id="s", message="hi")
    double.once = "close"
    assert (await client.inject(session_id="s", message="hi")).outcome is Outcome.INJECTED
    assert double.connections == 2


async def test_report_takes_a_model_a_mapping_or_fields(client: MeeseeksClient, double: HttpDouble) -> None:
    double.answer({"done": True, "injected": ["m1"], "used": ["m1"], "judged_by": "words", "counted": True})
    report = AnswerReport(session_id="s", turn_id="t", answer="On Tuesday", deadline_ms=5000)
    for said, fields in ((report, {}), (report.model_dump(), {}), (None, report.model_dump())):
        told = await client.report(said, **fields)
        assert (told.done, told.injected, told.used, told.counted) == (True, ("m1",), ("m1",), True)
    assert {(sent.method, sent.path) for sent in double.seen} == {("POST", "/v1/answers")}
    assert double.seen[0].body == report.model_dump(mode="json", exclude_none=True)
    assert int(double.seen[0].headers["x-deadline-ms"]) <= 5000


async def test_a_failed_report_has_a_reason(
    hasty: MeeseeksClient, double: HttpDouble, caplog: pytest.LogCaptureFixture
) -> None:
    said = {"session_id": "s", "turn_id": "t", "answer": "private words"}
    assert (await hasty.report(session_id="s")).reason is Reason.BAD_REQUEST
    double.answer({"done": False, "reason": "not_found"})
    assert (await hasty.report(**said)).reason is Reason.NOT_FOUND
    double.mode = "hang"
    started = time.monotonic()
    assert (await hasty.report(**said)).reason is Reason.DEADLINE
    assert time.monotonic() - started < HASTY_S + NOISE_S
    async with MeeseeksClient(double.url, timeout=HASTY_S, strict=True) as strict:
        with pytest.raises(DeadlinePassed):
            await strict.report(**said)
    assert "private" not in caplog.text


@pytest.mark.parametrize(
    ("memory_id", "path"),
    [
        ("a/b?c", "/v1/memories/a%2Fb%3Fc?tenant=t"),
        ("exports", "/v1/memories/exports?tenant=t"),
        *((name, f"/v1/memory?id={name}&tenant=t") for name in ("export", "import", ".", "..")),
    ],
)
async def test_any_id_can_be_deleted(client: MeeseeksClient, double: HttpDouble, memory_id: str, path: str) -> None:
    double.answer({"forgotten": 1})
    assert (await client.forget(memory_id, tenant="t")).forgotten == 1
    assert (double.seen[0].method, double.seen[0].path) == ("DELETE", path)


@pytest.mark.parametrize("day", ["2026-03-05", date(2026, 3, 5), datetime(2026, 3, 5, 23, 59, 59, 999999)])
async def test_until_a_date_includes_the_whole_day(client: MeeseeksClient, double: HttpDouble, day: Any) -> None:
    double.answer({"memories": []})
    await client.recall("x", since="2026-03-05", until=day)
    assert (double.seen[0].body["since"], double.seen[0].body["until"]) == (
        "2026-03-05T00:00:00",
        "2026-03-05T23:59:59.999999",
    ), "a time without a zone is in that of the request"
    await client.recall("x", until=datetime(2026, 3, 5, 14, tzinfo=timezone(timedelta(hours=2))))
    assert double.seen[1].body["until"] == "2026-03-05T12:00:00Z"


async def test_deletion_is_not_retried(client: MeeseeksClient, double: HttpDouble) -> None:
    double.mode = "close"
    assert (await client.forget("m1")).reason is Reason.SERVICE_UNAVAILABLE
    assert len(double.seen) == 1


@pytest.mark.parametrize(
    ("status", "body", "outcome", "reason", "error"),
    [
        (400, {"title": "x"}, Outcome.ERROR, Reason.BAD_REQUEST, BadRequest),
        (422, {"detail": "message: too long"}, Outcome.ERROR, Reason.BAD_REQUEST, BadRequest),
        (401, {}, Outcome.ERROR, Reason.ACCESS_DENIED, AccessDenied),
        (403, b"no", Outcome.ERROR, Reason.ACCESS_DENIED, AccessDenied),
        (429, {}, Outcome.TIMEOUT, Reason.BUSY, ServiceUnavailable),
        (500, {}, Outcome.ERROR, Reason.INTERNAL, BadReply),
        (502, b"<html>", Outcome.ERROR, Reason.INTERNAL, BadReply),
        (503, {"reason": "no_worker"}, Outcome.TIMEOUT, Reason.NO_WORKER, ServiceUnavailable),
        (503, {"reason": "from the future"}, Outcome.ERROR, Reason.SERVICE_UNAVAILABLE, ServiceUnavailable),
        (504, {}, Outcome.TIMEOUT, Reason.DEADLINE, DeadlinePassed),
        (302, {}, Outcome.ERROR, Reason.BAD_REPLY, BadReply),
        (200, b"<html>", Outcome.ERROR, Reason.BAD_REPLY, BadReply),
        (200, b"[1]", Outcome.ERROR, Reason.BAD_REPLY, BadReply),
        (200, b"[" * 100_000, Outcome.ERROR, Reason.BAD_REPLY, BadReply),
        (200, b"\xff\xfe", Outcome.ERROR, Reason.BAD_REPLY, BadReply),
        (200, {"outcome": 7}, Outcome.ERROR, Reason.BAD_REPLY, BadReply),
    ],
)
async def test_every_error_response_has_a_reason_and_an_exception(
    client: MeeseeksClient,
    double: HttpDouble,
    status: int,
    body: Any,
    outcome: Outcome,
    reason: Reason,
    error: type[ClientError],
) -> None:
    double.answer(body, status)
    result = await client.inject(session_id="s", message="hi")
    assert (result.outcome, result.reason) == (outcome, reason)
    async with MeeseeksClient(double.url, timeout=10.0, strict=True) as strict:
        with pytest.raises(error) as caught:
            await strict.inject(session_id="s", message="hi")
    assert type(caught.value) is error
    assert caught.value.reason is reason


async def test_strict_errors_do_not_contain_the_input(double: HttpDouble) -> None:
    double.answer({"detail": "limit: too much"}, 422)
    async with MeeseeksClient(double.url, timeout=10.0, strict=True) as strict:
        with pytest.raises(BadRequest, match="status 422: limit: too much"):
            await strict.recall("x")
        with pytest.raises(BadRequest, match="session_id: is required") as caught:
            await strict.inject(message="private words")
        assert "private" not in str(caught.value)
        double.mode = "hang"
        with pytest.raises(DeadlinePassed):
            await strict.inject(session_id="s", message="hi", deadline_ms=300)


@pytest.mark.parametrize("request_", [{}, {"session_id": "s"}, {"session_id": 7, "message": []}, {"message": "m"}, 7])
async def test_a_bad_request_is_an_outcome(client: MeeseeksClient, double: HttpDouble, request_: Any) -> None:
    result = await client.inject(request_)
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.BAD_REQUEST)
    assert double.seen == []


async def test_invalid_text_is_cleaned(client: MeeseeksClient, double: HttpDouble) -> None:
    await client.inject(session_id="s", message="a\ud800\0b")
    assert double.seen[0].body["message"] == "a\ufffd\0b"
    assert (await client.remember("a\ud800b")).reason is None
    assert double.seen[1].body["memory"]["content"] == "a\ufffdb"


async def test_a_refused_connection_is_an_outcome(clock: Clock) -> None:
    async with MeeseeksClient(f"http://127.0.0.1:{free_port()}", clock=clock) as client:
        result = await client.inject(session_id="s", message="hi", turn_id="t")
        told = await client.event(type="session.cleared", session_id="s")
        found = await client.recall("x")
        kept = await client.remember("x")
        gone = await client.forget("x")
    assert (result.outcome, result.reason) == (Outcome.ERROR, Reason.SERVICE_UNAVAILABLE)
    assert (told.done, told.reason) == (False, Reason.SERVICE_UNAVAILABLE)
    assert {found.reason, kept.reason, gone.reason} == {Reason.SERVICE_UNAVAILABLE}
    assert (found.memories, kept.id, gone.forgotten) == ((), None, 0)


async def test_calls_pause_after_three_failures_and_resume(
    hasty: MeeseeksClient, double: HttpDouble, clock: Clock
) -> None:
    double.mode = "hang"
    for _ in range(FAILURES):
        await hasty.inject(session_id="s", message="hi")
    asked = len(double.seen)
    started = time.monotonic()
    paused = await hasty.inject(session_id="s", message="hi")
    assert time.monotonic() - started < NOISE_S
    assert paused.reason is Reason.SERVICE_UNAVAILABLE
    clock.now += PAUSE - 0.01
    assert (await hasty.inject(session_id="s", message="hi")).reason is Reason.SERVICE_UNAVAILABLE
    assert len(double.seen) == asked == FAILURES
    clock.now += 0.01
    double.answer(INJECTED)
    assert (await hasty.inject(session_id="s", message="hi")).outcome is Outcome.INJECTED
    assert (await hasty.inject(session_id="s", message="hi")).outcome is Outcome.INJECTED


async def test_a_failed_probe_costs_one_more_pause(client: MeeseeksClient, double: HttpDouble, clock: Clock) -> None:
    double.mode = "close"
    for _ in range(FAILURES):
        await client.forget("m")
    clock.now += PAUSE
    await client.forget("m")
    await client.forget("m")
    assert len(double.seen) == FAILURES + 1


async def test_immediate_failures_pause_briefly(client: MeeseeksClient, double: HttpDouble, clock: Clock) -> None:
    double.mode = "close"
    for _ in range(FAILURES):
        await client.forget("m")
    double.answer(INJECTED)
    assert (await client.inject(session_id="s", message="hi")).reason is Reason.SERVICE_UNAVAILABLE
    clock.now += SHORT_PAUSE
    assert (await client.inject(session_id="s", message="hi")).outcome is Outcome.INJECTED


async def test_responses_do_not_open_the_breaker(client: MeeseeksClient, double: HttpDouble) -> None:
    double.answer({}, 500)
    for _ in range(2 * FAILURES):
        await client.inject(session_id="s", message="hi")
    assert len(double.seen) == 2 * FAILURES


async def test_very_short_timeouts_do_not_open_the_breaker(client: MeeseeksClient, double: HttpDouble) -> None:
    double.mode = "hang"
    for _ in range(2 * FAILURES):
        await client.inject(session_id="s", message="hi", deadline_ms=20)
    double.answer(INJECTED)
    assert (await client.inject(session_id="s", message="hi")).outcome is Outcome.INJECTED


async def test_the_breaker_can_be_passed_in(double: HttpDouble) -> None:
    double.mode = "close"
    async with MeeseeksClient(double.url, breaker=CircuitBreaker(1, 60.0)) as client:
        await client.forget("m")
        await client.forget("m")
    assert len(double.seen) == 1


async def test_events_and_memories_use_their_endpoints(client: MeeseeksClient, double: HttpDouble) -> None:
    double.answer({"done": True, "forgotten": 2})
    told = await client.event({"type": "session.cleared", "session_id": "a/b?c"})
    assert (told.done, told.forgotten) == (True, 2)
    double.answer({"memories": [{"id": "m", "type": "fact", "text": "x", "future": 1}], "degraded": None})
    found = await client.recall("where", types=["fact"], limit=3, scope={"tenant": "acme"})
    assert [memory.text for memory in found.memories] == ["x"]
    paths = [seen.path for seen in double.seen]
    assert paths == ["/v1/sessions/a%2Fb%3Fc/events", "/v1/recall"]
    assert double.seen[1].body == {"query": "where", "types": ["fact"], "limit": 3, "scope": {"tenant": "acme"}}


async def test_unknown_recall_fields_are_rejected(client: MeeseeksClient, double: HttpDouble) -> None:
    assert (await client.recall("where", limt=3)).reason is Reason.BAD_REQUEST
    assert double.seen == []


async def test_cancellation_is_not_swallowed(client: MeeseeksClient, double: HttpDouble) -> None:
    double.mode = "hang"
    asked = asyncio.create_task(client.inject(session_id="s", message="hi"))
    await asyncio.sleep(0.05)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_two_hundred_concurrent_calls(double: HttpDouble) -> None:
    async with MeeseeksClient(double.url, timeout=20.0) as client:
        results = await asyncio.gather(*(client.inject(session_id="s", message=f"{n}") for n in range(200)))
    assert {result.outcome for result in results} == {Outcome.INJECTED}


def test_one_client_serves_several_loops(double: HttpDouble) -> None:
    client = MeeseeksClient(double.url)

    async def once() -> Outcome:
        result = await client.inject(session_id="s", message="hi")
        await client.aclose()
        return result.outcome

    assert [asyncio.run(once()) for _ in range(2)] == [Outcome.INJECTED] * 2


@pytest.mark.parametrize("url", ["localhost:8787", "ftp://host", "http://", "unix:///x"])
def test_other_url_schemes_are_rejected(url: str) -> None:
    with pytest.raises(ValueError, match="http:// or https://"):
        MeeseeksClient(url)


def test_the_url_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, double: HttpDouble) -> None:
    monkeypatch.setenv("MEESEEKS_URL", double.url + "/")
    monkeypatch.setenv("MEESEEKS_TOKEN", "from-the-environment")

    async def once() -> None:
        async with MeeseeksClient() as client:
            await client.inject(session_id="s", message="hi")

    asyncio.run(once())
    assert double.seen[0].headers["authorization"] == "Bearer from-the-environment"


WITHOUT_HTTPX = """
import sys
sys.modules["httpx"] = None
import hooks.http.client
try:
    hooks.http.client.MeeseeksClient()
except ImportError as error:
    assert "pip install 'meeseeks-hooks[http]'" in str(error), error
else:
    raise SystemExit("no error")
"""


def test_without_httpx_the_error_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_HTTPX], cwd=ROOT, capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stderr) == (0, b"")
