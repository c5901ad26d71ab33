"""Access control: host names, tokens, limits, logs and metrics."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Message
from structlog.testing import capture_logs

from tests.support.http import ACME_TOKEN, TOKEN, Conversation, Recorder, both_tokens, calling, make_app
from worker.api import access as query_threshold
from worker.api.access import grant_of
from worker.api.rate_limit import MOST_CALLERS, RateLimit
from worker.api.tokens import Tokens, check_address, local_names, name_in, read_tokens
from worker.domain.errors import SettingsError
from worker.operations.metrics import Metrics
from worker.settings.service import ServiceSettings

INJECTION = {"session_id": "s", "message": "words that nobody may log"}
NOTHING = {"outcome": "none_relevant", "reason": "nothing_recalled"}


def recorder() -> Recorder:
    return Recorder({"inject": NOTHING, "health": {"store": {"points": 7}}, "host_hook": {"output": 1}})


def assert_problem(answer: httpx.Response, status: int) -> None:
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    document = answer.json()
    assert document["type"] == "about:blank"
    assert document["status"] == status
    assert document["title"]


async def test_without_configured_tokens_none_is_required() -> None:
    async with calling(make_app(recorder())) as client:
        assert (await client.post("/v1/inject", json=INJECTION)).json() == NOTHING


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer \xff\xfe"],
)
async def test_a_wrong_token_is_refused(header: str | None) -> None:
    seen = recorder()
    headers = {} if header is None else {"Authorization": header.encode("latin-1")}
    async with calling(make_app(seen, tokens=both_tokens())) as client:
        answer = await client.post("/v1/inject", json=INJECTION, headers=headers)
    assert_problem(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert seen.asked == []


async def test_two_authorization_headers_count_as_none() -> None:
    headers = [("Authorization", f"Bearer {TOKEN}"), ("Authorization", f"Bearer {TOKEN}")]
    async with calling(make_app(recorder(), tokens=both_tokens())) as client:
        assert (await client.post("/v1/inject", json=INJECTION, headers=headers)).status_code == 401


@pytest.mark.parametrize("token", [TOKEN, ACME_TOKEN])
async def test_a_right_token_passes(token: str) -> None:
    async with calling(make_app(recorder(), tokens=both_tokens()), token) as client:
        assert (await client.post("/v1/inject", json=INJECTION)).status_code == 200


@pytest.mark.parametrize(
    ("path", "status"),
    [("/healthz", 200), ("/readyz", 200), ("/openapi.json", 200), ("/metrics", 401), ("/nowhere", 401)],
)
async def test_open_paths_need_no_token(path: str, status: int) -> None:
    async with calling(make_app(recorder(), tokens=both_tokens())) as client:
        assert (await client.get(path)).status_code == status


async def test_metrics_need_a_token_for_all_tenants() -> None:
    app = make_app(recorder(), tokens=both_tokens())
    async with calling(app, ACME_TOKEN) as client:
        assert_problem(await client.get("/metrics"), 403)
    async with calling(app, TOKEN) as client:
        assert (await client.get("/metrics")).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8787", 200),
        ("LOCALHOST:1", 200),
        ("127.0.0.1:8787", 200),
        ("[::1]:8787", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8787", 421),
        ("", 421),
        ("[::1", 421),
    ],
)
async def test_other_host_names_are_refused(host: str, status: int) -> None:
    app = make_app(recorder(), names=local_names("127.0.0.1"))
    async with calling(app) as client:
        assert (await client.get("/healthz", headers={"Host": host})).status_code == status


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://localhost:3000", 200), ("https://evil.example", 403), ("null", 403), ("http://[::1]:1", 200)],
)
async def test_other_origins_are_refused(origin: str, status: int) -> None:
    app = make_app(recorder(), names=local_names("127.0.0.1"))
    async with calling(app) as client:
        answer = await client.post("/v1/inject", json=INJECTION, headers={"Origin": origin})
    assert answer.status_code == status
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(("headers", "parts_before"), [({"content-length": "100000"}, 0), ({}, 11)])
@pytest.mark.parametrize("path", ["/v1/inject", "/v1/memories/import"])
async def test_a_body_over_the_limit_is_answered_while_it_is_still_being_sent(
    path: str, headers: dict[str, str], parts_before: int
) -> None:
    seen: list[str] = []
    asked = Conversation(path, {}, headers={"content-type": "application/jsonl", **headers})
    if path == "/v1/inject":
        asked = Conversation(path, {}, headers=headers)

    async def receive() -> dict[str, object]:
        seen.append("part")
        return {"type": "http.request", "body": b"x" * 100, "more_body": seen.count("part") < 1000}

    async def send(message: Message) -> None:
        seen.append(str(message.get("status") or message["type"]))

    app = make_app(recorder(), body_limit=1000, import_limit=1000)
    await asyncio.wait_for(app(asked.scope, receive, send), 10)
    assert seen[: parts_before + 2] == ["part"] * parts_before + ["413", "http.response.body"]
    assert seen[-1] == "http.response.body", "the response ends once the rest of the body has been discarded"


async def test_a_caller_that_waits_for_leave_to_send_is_not_waited_for() -> None:
    asked = Conversation("/v1/inject", {}, headers={"content-length": "100000", "expect": "100-continue"})
    asked.incoming = []
    await asyncio.wait_for(make_app(recorder(), body_limit=1000)(asked.scope, asked.receive, asked.send), 1)
    assert asked.status == 413


@pytest.mark.parametrize("path", ["/v1/inject", "/v1/hooks/codex"])
async def test_a_body_that_does_not_arrive_times_out(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_threshold, "PART_S", 0.1)
    asked = Conversation(path, INJECTION)
    asked.incoming[0]["more_body"] = True
    await asyncio.wait_for(make_app(recorder())(asked.scope, asked.receive, asked.send), 10)
    assert asked.status == (200 if "hooks" in path else 408)


async def test_an_import_may_be_longer_than_a_request() -> None:
    seen = Recorder({"put": {"created": 1}})
    async with calling(make_app(seen, body_limit=100, import_limit=10_000)) as client:
        line = '{"content": "%s"}' % ("word " * 100)
        headers = {"Content-Type": "application/jsonl"}
        assert (await client.post("/v1/memories/import", content=line, headers=headers)).status_code == 200
        assert_problem(await client.post("/v1/memories/import", content=line * 100, headers=headers), 413)


async def test_too_many_requests_get_a_retry_after() -> None:
    app = make_app(recorder(), tokens=both_tokens(), rate=RateLimit(2))
    async with calling(app, TOKEN) as client, calling(app, ACME_TOKEN) as other:
        assert [(await client.post("/v1/inject", json=INJECTION)).status_code for _ in range(2)] == [200, 200]
        refused = await client.post("/v1/inject", json=INJECTION)
        assert_problem(refused, 429)
        assert 1 <= int(refused.headers["retry-after"]) <= 30
        assert (await other.post("/v1/inject", json=INJECTION)).status_code == 200


async def test_guessing_tokens_is_limited_too() -> None:
    async with calling(make_app(recorder(), tokens=both_tokens(), rate=RateLimit(2)), "x" * 20) as client:
        assert [(await client.get("/metrics")).status_code for _ in range(3)] == [401, 401, 429]


async def test_temporary_failures_are_hidden_from_hosts() -> None:
    app = make_app(recorder(), rate=RateLimit(3), body_limit=100)
    async with calling(app) as client:
        fine = await client.post("/v1/hooks/codex", json={})
        long = await client.post("/v1/hooks/codex", json={"prompt": "x" * 200})
        wrong = await client.post("/v1/hooks/codex", content=b"nope", headers={"Content-Type": "application/json"})
        often = await client.post("/v1/hooks/codex", json={})
    assert (fine.status_code, fine.json()) == (200, {"output": 1})
    for answer, reason in ((long, "413"), (wrong, "bad_request"), (often, "429")):
        assert (answer.status_code, answer.json()) == (200, {})
        assert answer.headers["meeseeks-reason"] == reason


async def test_configuration_errors_are_reported_to_hosts() -> None:
    async with calling(make_app(recorder(), tokens=both_tokens())) as client:
        assert_problem(await client.post("/v1/hooks/codex", json={}), 401)


async def test_mounted_applications_share_access_control_and_lifespan() -> None:
    lived = []

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        lived.append("started")
        yield
        lived.append("stopped")

    async def whole(request: Request) -> JSONResponse:
        return JSONResponse({"path": request.url.path, "tenant": grant_of(request.scope).caller.tenant})

    inner = Starlette(routes=[Route("/mcp", whole), Route("/mcp/more", whole)], lifespan=lifespan)
    app = make_app(recorder(), tokens=both_tokens(), mounts={"/mcp": inner})
    async with app.router.lifespan_context(app):
        assert lived == ["started"]
        async with calling(app) as client:
            assert_problem(await client.get("/mcp"), 401)
        async with calling(app, ACME_TOKEN) as client:
            assert (await client.get("/mcp")).json() == {"path": "/mcp", "tenant": "acme"}
            assert (await client.get("/mcp/more")).json()["path"] == "/mcp/more"
            assert_problem(await client.get("/mcpx"), 404)
    assert lived == ["started", "stopped"]


async def test_logs_and_metrics_contain_no_request_data() -> None:
    metrics = Metrics()
    app = make_app(recorder(), metrics=metrics)
    with capture_logs() as logs:
        async with calling(app) as client:
            await client.post("/v1/inject", json=INJECTION)
            await client.get("/v1/sessions/a-secret-session")
            await client.request("BREW", "/a-secret-path")
    assert [(entry["route"], entry["status"]) for entry in logs if entry["event"] == "http"] == [
        ("/v1/inject", 200),
        ("/v1/sessions/{session_id}", 422),
        ("unknown", 404),
    ]
    text = metrics.text().decode()
    assert 'meeseeks_http_requests_total{method="POST",route="/v1/inject",status="200"} 1.0' in text
    assert 'method="other"' in text
    for secret in ("secret", "words that nobody"):
        assert secret not in text + str(logs)


def settings(**fields: object) -> ServiceSettings:
    return ServiceSettings.model_validate(fields)


def test_a_token_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"# who\n\n{TOKEN}\n  {ACME_TOKEN}   acme and sons \n", encoding="utf-8")
    tokens = read_tokens(settings(http_token_file=file))
    assert [tokens.find(text) and tokens.find(text).tenant for text in (TOKEN, ACME_TOKEN)] == [None, "acme and sons"]  # type: ignore[union-attr]
    assert tokens.find("x" * 20) is None
    assert TOKEN not in repr(tokens)


@pytest.mark.parametrize("text", ["short", "\x01" * 20, "ümlaut-is-not-ascii-here"])
def test_an_invalid_token_is_refused_on_start_and_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\n{text} tenant\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"tokens:2: a token needs at least 16") as caught:
        read_tokens(settings(http_token_file=file))
    assert text not in str(caught.value)
    with pytest.raises(SettingsError, match=r"service\.http_token: a token needs"):
        read_tokens(settings(http_token=text))


def test_the_same_token_twice_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN} one\n", encoding="utf-8")
    with pytest.raises(SettingsError, match="duplicate token"):
        read_tokens(settings(http_token_file=file, http_token=TOKEN))


def test_a_missing_token_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        read_tokens(settings(http_token_file=tmp_path / "tokens"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org", "128.0.0.1", ""])
def test_public_addresses_need_a_token(host: str) -> None:
    with pytest.raises(SettingsError, match="MEESEEKS_HTTP_TOKEN"):
        check_address(host, Tokens())
    check_address(host, both_tokens())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_loopback_addresses_need_no_token(host: str) -> None:
    check_address(host, Tokens())
    assert local_names(host)


@given(st.text(alphabet="abc.:[]/@0123456789\x00é", max_size=20))
def test_any_authority_can_be_parsed(authority: str) -> None:
    assert name_in(authority) == name_in(authority).lower()


def test_a_bucket_fills_at_a_steady_rate() -> None:
    limit = RateLimit(60)
    assert [limit.take("a", 0.0) for _ in range(60)] == [0.0] * 60
    assert limit.take("a", 0.0) == pytest.approx(1.0)
    assert limit.take("b", 0.0) == 0.0
    assert limit.take("a", 0.5) == pytest.approx(0.5)
    assert limit.take("a", 1.0) == 0.0
    assert limit.take("a", 1.0) == pytest.approx(1.0)


@given(st.lists(st.floats(min_value=0, max_value=600), min_size=1, max_size=300), st.integers(1, 100))
def test_the_rate_limit_is_never_exceeded(times: list[float], per_minute: int) -> None:
    limit, passed = RateLimit(per_minute), 0
    times.sort()
    for now in times:
        passed += limit.take("one", now) == 0.0
        assert passed <= per_minute + (now - times[0]) * per_minute / 60 + 1e-6


def test_zero_means_no_limit_and_callers_are_bounded() -> None:
    assert [RateLimit(0).take("a", 0.0) for _ in range(5)] == [0.0] * 5
    limit = RateLimit(1)
    for number in range(MOST_CALLERS + 10):
        limit.take(str(number), 0.0)
    assert len(limit._buckets) == MOST_CALLERS
