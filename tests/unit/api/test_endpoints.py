"""The operation and payload of every endpoint, and the tenant that a token is bound to."""

import asyncio
from typing import Any
from urllib.parse import quote, unquote

import httpx
import pytest

from hooks.contract import Reason, SessionEvent
from tests.support.http import ACME_TOKEN, TOKEN, Conversation, Recorder, both_tokens, calling, make_app
from worker.api.routes import injection
from worker.api.schemas import SessionEventBody
from worker.domain.deadline import Deadline
from worker.domain.errors import (
    MemoryRejected,
    NotFound,
    OperationError,
    QueueError,
    SettingsConflict,
    SettingsError,
    StoreError,
)
from worker.domain.fair_line import Caller
from worker.injection.capacity import Capacity
from worker.operations.client import QueueState
from worker.operations.metrics import Metrics

NOTHING = {"outcome": "none_relevant", "reason": "nothing_recalled"}
DONE = {"done": True, "forgotten": 1, "adopted": 0}
MEMORY = {"memory": {"id": "m", "content": "c"}}

ANSWERS: dict[str, Any] = {
    "inject": NOTHING,
    "host_hook": {},
    "session_event": DONE,
    "session_show": {"session_id": "s", "agents": []},
    "recall": {"memories": []},
    "export": {"memories": [], "cursor": None},
    "show": {**MEMORY, "earlier": [], "later": [], "related": []},
    "remember": {"id": "m", "stored": "created"},
    "update": MEMORY,
    "relate": MEMORY,
    "forget": {"forgotten": 1},
    "undo": {"restored": []},
    "put": {"created": 1},
    "receipts": {"receipts": []},
    "receipt": {"id": "r"},
    "replay": {"receipt_id": "r"},
    "label": {"task": {}, "memories": []},
    "post_execution": DONE,
    "usage": {"memories": [], "counted": 0},
    "settings_get": {"agent": None, "saved_version": 17},
    "settings_patch": {"agent": None, "saved_version": 18},
    "settings_reset": {"agent": None, "saved_version": 18},
    "settings_history": {"changes": [], "cursor": None},
    "settings_undo": {"agent": None, "saved_version": 18},
    "health": {"store": {"points": 3}},
    "upkeep": {"run": {"id": "u"}, "texts": {}},
    "upkeep_show": {"run": {"id": "u"}, "texts": {}},
    "upkeep_undo": {"id": "u"},
}

Call = tuple[str, str, Any, str, dict[str, Any]]

CALLS: list[Call] = [
    ("POST", "/v1/inject", {"session_id": "s", "message": "m", "scope": {"user": "u"}}, "inject", {"session_id": "s"}),
    ("POST", "/v1/hooks/codex", {"a": 1}, "host_hook", {"host": "codex", "event": {"a": 1}, "deadline_ms": 3000}),
    ("POST", "/v1/sessions/a%2Fb/events", {"type": "session.cleared"}, "session_event", {"session_id": "a/b"}),
    ("GET", "/v1/sessions/a%2Fb", None, "session_show", {"session_id": "a/b"}),
    ("POST", "/v1/recall", {"query": "q", "types": ["fact"]}, "recall", {"query": "q", "types": ["fact"]}),
    ("GET", "/v1/memories?type=fact&type=goal&limit=3", None, "export", {"types": ["fact", "goal"], "limit": 3}),
    ("POST", "/v1/memories", {"memory": {"content": "c"}}, "remember", {"memory": {"content": "c"}}),
    ("GET", "/v1/memories/a%2Fb", None, "show", {"id": "a/b"}),
    (
        "POST",
        "/v1/memories",
        {"memory": {"content": "c", "pinned": True}},
        "remember",
        {"memory": {"content": "c", "pinned": True}},
    ),
    ("PATCH", "/v1/memories/m", {"changes": {"pinned": False}}, "update", {"changes": {"pinned": False}}),
    ("PATCH", "/v1/memories/m", {"changes": {"valid_until": None}}, "update", {"changes": {"valid_until": None}}),
    ("DELETE", "/v1/memories/a%2Fb", None, "forget", {"ids": ["a/b"], "permanent": False}),
    ("DELETE", "/v1/memories/m?permanent=true", None, "forget", {"ids": ["m"], "permanent": True}),
    ("POST", "/v1/memories/undo", {"ids": ["a/b"]}, "undo", {"ids": ["a/b"]}),
    ("POST", "/v1/memories/undo", {}, "undo", {"ids": []}),
    ("POST", "/v1/memories/a%2Fb/relations", {"kind": "k", "target": "t"}, "relate", {"source": "a/b", "target": "t"}),
    ("GET", "/v1/memory?id=export", None, "show", {"id": "export"}),
    ("PATCH", "/v1/memory?id=import", {"changes": {"importance": 1}}, "update", {"id": "import"}),
    ("DELETE", "/v1/memory?id=..", None, "forget", {"ids": [".."]}),
    ("POST", "/v1/memory/relations?id=a/b", {"kind": "k", "target": "t"}, "relate", {"source": "a/b", "target": "t"}),
    ("POST", "/v1/answers", {"session_id": "s", "turn_id": "1", "answer": "x"}, "post_execution", {"answer": "x"}),
    ("GET", "/v1/usage?never_used=true&min_injected=3", None, "usage", {"never_used": True, "min_injected": 3}),
    ("POST", "/v1/receipts/r/replay", {"mode": "off"}, "replay", {"id": "r"}),
    ("POST", "/v1/receipts/r/label", {"accept": True}, "label", {"id": "r"}),
    ("GET", "/v1/receipts?limit=2", None, "receipts", {"limit": 2}),
    ("GET", "/v1/receipts/r", None, "receipt", {"id": "r"}),
    ("GET", "/v1/memories/export", None, "export", {"limit": 200}),
    ("POST", "/v1/upkeep", {"apply": True}, "upkeep", {"apply": True}),
    ("GET", "/v1/upkeep", None, "upkeep_show", {}),
    ("GET", "/v1/upkeep/u", None, "upkeep_show", {"id": "u"}),
    ("POST", "/v1/upkeep/u/undo", {}, "upkeep_undo", {"id": "u"}),
]

SETTINGS: list[Call] = [
    ("GET", "/v1/settings", None, "settings_get", {}),
    ("PATCH", "/v1/settings", {"values": {"max_items": 3}}, "settings_patch", {"values": {"max_items": 3}}),
    ("DELETE", "/v1/settings", None, "settings_reset", {}),
    ("GET", "/v1/agents/a%2Fb/settings", None, "settings_get", {"agent_id": "a/b"}),
    ("PATCH", "/v1/agents/a/settings", {"unset": ["mode"]}, "settings_patch", {"agent_id": "a", "unset": ["mode"]}),
    (
        *("PATCH", "/v1/agents/a/settings", {"reset_memory_injection_override": True}, "settings_patch"),
        {"agent_id": "a", "reset_memory_injection_override": True, "values": {}},
    ),
    ("DELETE", "/v1/agents/a/settings", None, "settings_reset", {"agent_id": "a"}),
    (
        *("GET", "/v1/settings/changes?agent_id=a%2Fb&key=mode&before=9&limit=3", None, "settings_history"),
        {"agent_id": "a/b", "key": "mode", "before": 9, "limit": 3},
    ),
    ("POST", "/v1/settings/changes/7/undo", None, "settings_undo", {"change": 7}),
]

CHANGES = [call for call in SETTINGS if call[0] != "GET"]
UNDO = CHANGES[-1]


def naming_other(call: Call) -> Call:
    """Return the call with the tenant "other", in the body if the endpoint takes its fields there."""
    method, path, body, operation, _ = call
    if isinstance(body, dict) and operation != "host_hook":
        named = {"scope": {"tenant": "other"}} if operation in {"inject", "recall"} else {"tenant": "other"}
        return method, path, {**body, **named}, operation, {}
    return method, f"{path}{'&' if '?' in path else '?'}tenant=other", body, operation, {}


def tenants(payload: dict[str, Any]) -> list[str]:
    """Return every tenant that a payload names."""
    scope = payload.get("scope", {})
    return [part["tenant"] for part in (payload, scope) if "tenant" in part]


async def send(client: httpx.AsyncClient, call: Call) -> httpx.Response:
    method, path, body, _, _ = call
    return await client.request(method, path, json=body) if body is not None else await client.request(method, path)


@pytest.mark.parametrize("call", CALLS + SETTINGS, ids=lambda call: f"{call[0]} {call[1]}")
async def test_an_endpoint_calls_its_operation(call: Call) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        answer = await send(client, call)
    assert answer.status_code in {200, 201, 202}, answer.text
    ((operation, payload),) = seen.asked
    assert operation == call[3]
    assert {name: payload[name] for name in call[4]} == call[4]


@pytest.mark.parametrize("call", SETTINGS, ids=lambda call: f"{call[0]} {call[1]}")
async def test_settings_are_read_with_an_etag(call: Call) -> None:
    async with calling(make_app(Recorder(ANSWERS))) as client:
        answer = await send(client, call)
    listed = call[3] == "settings_history"
    assert answer.headers.get("etag") == (None if listed else f'"{17 if call[0] == "GET" else 18}"')


@pytest.mark.parametrize("call", CHANGES, ids=lambda call: f"{call[0]} {call[1]}")
async def test_a_change_of_settings_says_who_made_it(call: Call) -> None:
    for tokens, token, author in ((None, "", "local"), (both_tokens(), TOKEN, "token")):
        seen = Recorder(ANSWERS)
        async with calling(make_app(seen, tokens=tokens), token) as client:
            await send(client, call)
            body = {**(call[2] or {}), "author": {"name": "somebody else"}}
            await client.request(call[0], call[1], json=body)
        assert {str(payload["author"]) for _, payload in seen.asked} == {str({"name": author, "via": "http"})}


@pytest.mark.parametrize("call", CHANGES[:-1], ids=lambda call: f"{call[0]} {call[1]}")
@pytest.mark.parametrize(
    ("tag", "version"), [('"17"', 17), ("17", 17), ('W/"17"', 17), (' "0" ', 0), ("*", None), (None, None)]
)
async def test_a_change_may_be_based_on_what_was_read(call: Call, tag: str | None, version: int | None) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        await client.request(call[0], call[1], json=call[2], headers={"If-Match": tag} if tag else {})
    assert seen.asked[0][1]["version"] == version


@pytest.mark.parametrize("tag", ['"abc"', '"1", "2"', "", '"1', "-1", '"' + "9" * 30 + '"'])
@pytest.mark.parametrize("call", CHANGES[:-1], ids=lambda call: f"{call[0]} {call[1]}")
async def test_an_etag_that_no_settings_had_matches_nothing(call: Call, tag: str) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        answer = await client.request(call[0], call[1], json=call[2], headers={"If-Match": tag})
    assert (answer.status_code, seen.asked) == (412, [])
    assert 'such as "17"' in answer.json()["detail"]


async def test_a_change_based_on_two_versions_is_refused() -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        body = {"values": {"max_items": 3}, "version": 4}
        answer = await client.patch("/v1/settings", json=body, headers={"If-Match": '"5"'})
    assert (answer.status_code, seen.asked) == (422, [])
    assert "send one of them" in answer.json()["detail"]


async def test_a_change_that_others_came_before_is_answered_with_412() -> None:
    conflict = SettingsConflict("the saved settings have changed since version 4")
    async with calling(
        make_app(Recorder({**ANSWERS, "settings_patch": conflict, "settings_undo": conflict}))
    ) as client:
        for path, body in (("/v1/settings", {"values": {}}), ("/v1/agents/a/settings", {"values": {}})):
            answer = await client.patch(path, json=body)
            assert (answer.status_code, answer.json()["detail"]) == (412, str(conflict))
        assert (await send(client, UNDO)).status_code == 412


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[1]}")
async def test_a_bound_token_overrides_the_requested_tenant(call: Call) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen, tokens=both_tokens()), ACME_TOKEN) as client:
        answer = await send(client, naming_other(call))
    assert answer.status_code in {200, 201, 202}, answer.text
    ((_, payload),) = seen.asked
    assert set(tenants(payload)) == {"acme"}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[1]}")
async def test_other_tokens_use_the_requested_tenant(call: Call) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen, tokens=both_tokens()), TOKEN) as client:
        assert (await send(client, naming_other(call))).status_code in {200, 201, 202}
    assert set(tenants(seen.asked[0][1])) == {"other"}


@pytest.mark.parametrize(("token", "named"), [(TOKEN, True), (ACME_TOKEN, False)])
async def test_a_bound_token_has_no_transcript_of_this_machine_read(token: str, named: bool) -> None:
    seen = Recorder(ANSWERS)
    event = {"hook_event_name": "Stop", "session_id": "s", "transcript_path": "/home/u/.claude/projects/p/s.jsonl"}
    async with calling(make_app(seen, tokens=both_tokens()), token) as client:
        assert (await client.post("/v1/hooks/claude-code", json=event)).status_code == 200
    asked = seen.asked[0][1]["event"]
    assert (asked["session_id"], "transcript_path" in asked) == ("s", named)


@pytest.mark.parametrize("call", CALLS + SETTINGS, ids=lambda call: f"{call[0]} {call[1]}")
async def test_an_unknown_or_repeated_query_parameter_is_refused(call: Call) -> None:
    method, path, body, _, _ = call
    seen = Recorder(ANSWERS)
    mark = "&" if "?" in path else "?"
    async with calling(make_app(seen)) as client:
        answer = await send(client, (method, f"{path}{mark}tenent=other", body, "", {}))
    assert (answer.status_code, answer.json()["errors"][0]["at"]) == (422, ["query", "tenent"])
    assert "unknown query parameter" in answer.json()["detail"]
    assert seen.asked == []


async def test_every_documented_endpoint_refuses_what_it_does_not_know() -> None:
    seen = Recorder(ANSWERS)
    app = make_app(seen)
    async with calling(app) as client:
        for path, methods in app.openapi()["paths"].items():
            for method in methods:
                answer = await client.request(method, f"{path.replace('{', '').replace('}', '')}?tenent=other")
                assert (answer.status_code, answer.json()["errors"][0]["at"]) == (422, ["query", "tenent"]), path
    assert seen.asked == []


async def test_a_parameter_given_twice_is_refused_unless_it_is_a_list() -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        twice = await client.get("/v1/memories?tenant=a&tenant=b")
        listed = await client.get("/v1/memories?type=fact&type=goal")
    assert (twice.status_code, twice.json()["detail"]) == (422, "query.tenant: given more than once")
    assert listed.status_code == 200


async def test_where_to_put_a_field_is_said() -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        query = await client.post("/v1/memories?tenant=acme", json={"memory": {"content": "c"}})
        body = await client.post("/v1/memories", json={"content": "c"})
        both = await client.post("/v1/memories", json={"memory": {"contents": "c", "importance": 2}})
    assert query.json()["detail"].endswith("this endpoint has none; other fields go into the body")
    assert body.json()["detail"].startswith('body: put the fields of the memory into "memory"')
    assert both.json()["detail"] == (
        "body.memory.content: is required; body.memory.importance: must be at most 1; body.memory.contents: unknown key"
    )


async def test_an_import_stays_in_the_tenant_of_its_token() -> None:
    seen = Recorder(ANSWERS)
    headers = {"Content-Type": "application/jsonl"}
    async with calling(make_app(seen, tokens=both_tokens()), ACME_TOKEN) as client:
        await client.post("/v1/memories/import?tenant=other", content=b'{"content": "c"}', headers=headers)
    assert [payload["tenant"] for _, payload in seen.asked] == ["acme"]


@pytest.mark.parametrize("call", SETTINGS, ids=lambda call: f"{call[0]} {call[1]}")
async def test_a_token_of_one_tenant_may_not_access_settings(call: Call) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen, tokens=both_tokens()), ACME_TOKEN) as client:
        assert (await send(client, call)).status_code == 403
    assert seen.asked == []


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (NotFound("there is no memory 'x'"), 404, "not_found"),
        (MemoryRejected("content: blank"), 422, "bad_request"),
        (SettingsError("mode: no"), 422, "bad_request"),
        (StoreError("the store is down"), 503, "store_unavailable"),
        (QueueError(Reason.NO_WORKER, "no worker is running"), 503, "no_worker"),
        (QueueError(Reason.QUEUE_UNAVAILABLE, "Redis cannot be reached"), 503, "queue_unavailable"),
        (QueueError(Reason.BAD_REPLY, "the answer is not JSON"), 502, "bad_reply"),
        (OperationError(Reason.DEADLINE, "too late"), 504, "deadline"),
        (OperationError(Reason.BUSY, "busy"), 503, "busy"),
        (ZeroDivisionError("secret"), 500, "internal"),
    ],
)
async def test_an_error_of_the_service_has_its_status(error: Exception, status: int, reason: str) -> None:
    async with calling(make_app(Recorder({"show": error}))) as client:
        answer = await client.get("/v1/memories/m")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["reason"] == reason
    assert ("retry-after" in answer.headers) == (status == 503)
    assert "secret" not in answer.text


@pytest.mark.parametrize(
    ("error", "outcome", "reason"),
    [
        (QueueError(Reason.NO_WORKER, "x"), "timeout", "no_worker"),
        (OperationError(Reason.DEADLINE, "x"), "timeout", "deadline"),
        (QueueError(Reason.QUEUE_UNAVAILABLE, "x"), "error", "queue_unavailable"),
        (ZeroDivisionError("x"), "error", "internal"),
    ],
)
async def test_a_failed_injection_returns_no_block(error: Exception, outcome: str, reason: str) -> None:
    metrics = Metrics()
    async with calling(make_app(Recorder({"inject": error, "host_hook": error}), metrics=metrics)) as client:
        answer = await client.post("/v1/inject", json={"session_id": "s", "message": "m", "turn_id": "t"})
        hook = await client.post("/v1/hooks/codex", json={})
        event = await client.post("/v1/sessions/s/events", json={"type": "session.cleared"})
    assert answer.status_code == 200
    told = answer.json()
    assert (told["outcome"], told["reason"], told["memory_context"], told["turn_id"]) == (outcome, reason, None, "t")
    assert (hook.status_code, hook.json()) == (200, {})
    assert hook.headers["meeseeks-reason"] == reason
    assert event.status_code == 422, "there is no such operation here, which is the caller's fault"
    assert f'outcome="{outcome}",reason="{reason}"' in metrics.text().decode()


async def test_a_failed_event_is_not_done() -> None:
    seen = Recorder({"session_event": QueueError(Reason.NO_WORKER, "x")})
    async with calling(make_app(seen)) as client:
        answer = await client.post("/v1/sessions/s/events", json={"type": "session.cleared"})
    assert answer.status_code == 200
    assert (answer.json()["done"], answer.json()["reason"]) == (False, "no_worker")


async def test_an_unknown_host_is_not_found() -> None:
    async with calling(make_app(Recorder({"host_hook": NotFound("there is no host 'x'")}))) as client:
        assert (await client.post("/v1/hooks/x", json={})).status_code == 404


@pytest.mark.parametrize(
    ("query", "header", "least"),
    [("", None, 3000), ("?deadline_ms=1000", None, 1000), ("", "800", 800), ("?deadline_ms=900", "800", 800)],
)
async def test_the_shortest_deadline_holds(query: str, header: str | None, least: int) -> None:
    seen = Recorder(ANSWERS)
    headers = {"X-Deadline-Ms": header} if header else {}
    async with calling(make_app(seen)) as client:
        await client.post(f"/v1/inject{query}", json={"session_id": "s", "message": "m"}, headers=headers)
        await client.post(f"/v1/hooks/codex{query}", json={}, headers=headers)
    assert [payload["deadline_ms"] for _, payload in seen.asked] == [least, least]
    assert all(least / 1000 * 0.5 < left <= least / 1000 * 0.95 for left in seen.left)


@pytest.mark.parametrize("query", ["?deadline_ms=0", "?deadline_ms=60001", "?deadline_ms=soon"])
async def test_an_invalid_deadline_is_refused(query: str) -> None:
    async with calling(make_app(Recorder(ANSWERS))) as client:
        assert (await client.post(f"/v1/inject{query}", json={"session_id": "s", "message": "m"})).status_code == 422


async def test_the_scope_of_a_hook_can_be_set_in_its_url() -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        await client.post("/v1/hooks/codex?user=u&project=p&channel=c&tenant=t", json={})
        await client.post("/v1/hooks/codex", json={})
    scopes = [
        {name: payload["scope"][name] for name in payload["scope"] if name != "explain"} for _, payload in seen.asked
    ]
    assert scopes == [{"user": "u", "project": "p", "channel": "c", "tenant": "t"}, {}]


@pytest.mark.parametrize(("stored", "status"), [("created", 201), ("updated", 200), ("unchanged", 200)])
async def test_only_new_memories_return_201(stored: str, status: int) -> None:
    async with calling(make_app(Recorder({"remember": {"id": "m", "stored": stored}}))) as client:
        assert (await client.post("/v1/memories", json={"memory": {"content": "c"}})).status_code == status


async def test_forgetting_a_missing_memory_is_not_found() -> None:
    async with calling(make_app(Recorder({"forget": {"forgotten": 0}}))) as client:
        assert (await client.delete("/v1/memories/m")).status_code == 404


@pytest.mark.parametrize(
    "changes", [{}, {"content": None}, {"importance": 2}, {"id": "other"}, {"version": 9}, {"content": ""}]
)
async def test_empty_changes_are_refused(changes: dict[str, Any]) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        assert (await client.patch("/v1/memories/m", json={"changes": changes})).status_code == 422
    assert seen.asked == []


async def test_an_incomplete_event_is_refused() -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        answer = await client.post("/v1/sessions/s/events", json={"type": "turn.failed"})
    assert answer.status_code == 422
    assert "turn.failed needs turn_id" in answer.json()["detail"]
    assert seen.asked == []


def test_an_http_event_has_the_fields_of_a_session_event() -> None:
    ours, theirs = SessionEventBody.model_fields, dict(SessionEvent.model_fields)
    del theirs["session_id"]
    assert list(ours) == list(theirs)
    for name, field in theirs.items():
        assert (ours[name].annotation, ours[name].default) == (field.annotation, field.default), name


async def test_unknown_paths_and_methods_are_problems() -> None:
    async with calling(make_app(Recorder(ANSWERS))) as client:
        nowhere, wrong = await client.get("/v2/inject"), await client.get("/v1/inject")
    assert (nowhere.status_code, wrong.status_code) == (404, 405)
    assert wrong.headers["allow"] == "POST"
    assert {answer.headers["content-type"] for answer in (nowhere, wrong)} == {"application/problem+json"}


async def test_readiness_depends_on_the_store_and_liveness_does_not() -> None:
    async with calling(make_app(Recorder({"health": StoreError("down")}))) as client:
        assert (await client.get("/healthz")).json() == {"status": "alive"}
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()["reason"]) == (503, "store_unavailable")
    assert answer.json()["detail"] == "not ready"


@pytest.mark.parametrize("queue", [None, QueueState(4, alive=True)])
async def test_metrics_report_queue_and_store(queue: QueueState | None) -> None:
    async with calling(make_app(Recorder(ANSWERS), queue=queue)) as client:
        lines = (await client.get("/metrics")).text.splitlines()
    waiting, alive, up = (4.0, 1.0, 1.0) if queue else (0.0, 0.0, 0.0)
    assert f"meeseeks_queue_waiting {waiting}" in lines
    assert f"meeseeks_worker_alive {alive}" in lines
    assert f"meeseeks_redis_up {up}" in lines
    assert "meeseeks_store_up 1.0" in lines
    assert "meeseeks_store_memories 3.0" in lines


async def test_metrics_count_requests_that_wait_for_their_turn() -> None:
    capacity, metrics = Capacity(at_once=1), Metrics()
    metrics.watch_waiting(lambda: capacity.waiting)
    async with capacity.turn(Caller(), Deadline.after(60)):
        waiting = asyncio.create_task(_wait_in(capacity))
        await asyncio.sleep(0)
        assert b"meeseeks_requests_waiting 1.0" in metrics.text()
    await waiting
    assert b"meeseeks_requests_waiting 0.0" in metrics.text()


async def _wait_in(capacity: Capacity) -> None:
    async with capacity.turn(Caller(), Deadline.after(60)):
        pass


async def test_requests_beyond_the_waiting_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injection, "RECALL_DEADLINE_MS", 120_000)  # or none of the last could wait on a busy machine
    go = asyncio.Event()

    async def wait() -> dict[str, Any]:
        await go.wait()
        return ANSWERS["recall"]

    async with calling(make_app(Recorder({"recall": lambda _: wait()}), at_once=10)) as client:
        asked = [asyncio.create_task(client.post("/v1/recall", json={"query": "q"})) for _ in range(218)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
        assert {(await task).json()["reason"] for task in done} == {"busy"}
        go.set()
        answers = await asyncio.gather(*asked)
    assert {answer.status_code for answer in answers} == {200, 503}
    assert sum(answer.status_code == 503 for answer in answers) == 8


FILE = b'{"content": "one"}\nnothing of a memory\n{"content": "two"}\n{"content": ""}\n'


async def test_an_import_reports_rejected_entries() -> None:
    seen = Recorder({"put": lambda payload: {"created": len(payload["memories"]), "without_vector": 1}})
    async with calling(make_app(seen)) as client:
        kind = {"Content-Type": "application/x-ndjson"}
        report = (await client.post("/v1/memories/import?mask=true", content=FILE, headers=kind)).json()
        dry = (await client.post("/v1/memories/import?dry_run=true", content=FILE, headers=kind)).json()
    assert (report["read"], report["created"], report["without_vector"], report["refused"]) == (2, 2, 1, 2)
    assert [entry["line"] for entry in report["rejected"]] == [2, 4]
    assert [payload["mask"] for _, payload in seen.asked] == [True]
    assert (dry["read"], dry["created"], dry["refused"]) == (2, 0, 2)


@pytest.mark.parametrize(
    ("kind", "content", "query"),
    [
        ("text/csv", b"content,type\none,fact\n", ""),
        ("text/markdown", b"- one\n", ""),
        ("application/json", b'[{"content": "one"}]', ""),
        ("application/json", b'{"results": [{"memory": "one"}]}', "?format=json"),
        ("application/octet-stream", b'{"content": "one"}', ""),
        ("application/octet-stream", b"- one", "?format=markdown"),
    ],
)
async def test_every_format_can_be_imported(kind: str, content: bytes, query: str) -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        answer = await client.post(f"/v1/memories/import{query}", content=content, headers={"Content-Type": kind})
    assert answer.status_code == 200, answer.text
    assert [memory["content"] for memory in seen.asked[0][1]["memories"]] == ["one"]


async def test_an_unknown_file_format_is_refused() -> None:
    async with calling(make_app(Recorder(ANSWERS))) as client:
        unclear = await client.post(
            "/v1/memories/import", content=b"words", headers={"Content-Type": "application/octet-stream"}
        )
        plain = await client.post("/v1/memories/import", content=b"words", headers={"Content-Type": "text/html"})
    assert (unclear.status_code, plain.status_code) == (422, 415)
    assert "?format=" in unclear.json()["detail"]


async def test_an_interrupted_import_reports_its_progress() -> None:
    batches = iter([{"created": 100}, StoreError("the store is down")])
    lines = b"".join(b'{"content": "memory %d"}\n' % number for number in range(150))
    async with calling(make_app(Recorder({"put": lambda _: next(batches)}))) as client:
        answer = await client.post("/v1/memories/import", content=lines, headers={"Content-Type": "application/jsonl"})
    assert answer.status_code == 503
    assert "100 memories were stored" in answer.json()["detail"]


async def test_an_export_is_streamed_page_by_page() -> None:
    pages = iter([{"memories": [MEMORY["memory"]], "cursor": "next"}, {"memories": [MEMORY["memory"]], "cursor": None}])
    seen = Recorder({"export": lambda _: next(pages)})
    async with calling(make_app(seen)) as client:
        answer = await client.get("/v1/memories/export")
    assert answer.headers["content-type"] == "application/jsonl"
    assert len(answer.text.splitlines()) == 2
    assert [payload["cursor"] for _, payload in seen.asked] == [None, "next"]


async def test_an_export_fails_before_the_first_memory_and_is_truncated_after() -> None:
    pages = iter([{"memories": [MEMORY["memory"]], "cursor": "next"}, StoreError("down")])
    async with calling(make_app(Recorder({"export": StoreError("down")}))) as client:
        assert (await client.get("/v1/memories/export")).status_code == 503
    app = make_app(Recorder({"export": lambda _: next(pages)}))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        with pytest.raises(RuntimeError):
            await client.get("/v1/memories/export")


@pytest.mark.parametrize(
    "name", ["a/b", "%2F", "a%b", "%", "..", ".", "ü/ü", "a b?c#d", "\x00", "//", "export/x", "a/relations"]
)
async def test_any_text_can_be_an_id(name: str) -> None:
    seen = Recorder(ANSWERS)
    path = f"/v1/memories/{quote(name, safe='')}"
    scope = Conversation(path, None, method="GET")
    scope.scope["path"] = unquote(path)
    await make_app(seen)(scope.scope, scope.receive, scope.send)
    assert scope.status == 200
    assert seen.asked == [("show", {"tenant": "default", "id": name})]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/memories", "GET, POST"),
        ("/v1/memories/m", "DELETE, GET, PATCH"),
        ("/v1/memories/m/relations", "POST"),
        ("/v1/settings", "DELETE, GET, PATCH"),
        ("/v1/sessions/s/events", "POST"),
    ],
)
async def test_allow_names_all_methods_of_a_path(path: str, methods: str) -> None:
    async with calling(make_app(Recorder(ANSWERS))) as client:
        answer = await client.options(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, methods)


@pytest.mark.parametrize(
    ("loading", "said"), [(True, {"status": "ready", "loading": ["a/b"]}), (False, {"status": "ready"})]
)
async def test_readiness_names_the_models_that_still_load(loading: bool, said: dict[str, Any]) -> None:
    models = [{"name": "a/b", "loading": loading}, {"name": "c/d", "loading": False}]
    async with calling(make_app(Recorder({"health": {"models": models}}))) as client:
        answer = await client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, said)


async def test_an_unknown_time_zone_costs_no_turn_and_a_search_says_what_to_write() -> None:
    seen = Recorder(ANSWERS)
    async with calling(make_app(seen)) as client:
        injected = await client.post("/v1/inject", json={"session_id": "s", "message": "m", "tz": "Europe/Zuerich"})
        refused = await client.post("/v1/recall", json={"query": "q", "tz": "Europe/Zuerich"})
        taken = await client.post("/v1/recall", json={"query": "q", "tz": "Europe/Zurich"})
    assert (injected.status_code, refused.status_code, taken.status_code) == (200, 422, 200)
    assert "did you mean Europe/Zurich?" in refused.text
    assert [payload["tz"] for _, payload in seen.asked] == ["Europe/Zuerich", "Europe/Zurich"]
