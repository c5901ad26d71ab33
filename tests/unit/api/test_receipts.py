"""Receipts over HTTP: filters, replays and labels."""

import asyncio
from typing import Any

import pytest

from hooks.contract import Outcome, Reason
from tests.support.http import ACME_TOKEN, TOKEN, Conversation, Recorder, both_tokens, calling, make_app
from worker.domain.errors import NotFound, OperationError, QueueError, SettingsError

RUN = {"chosen": [], "degraded": False, "elapsed_ms": 5.0}
SAME = {"receipt_id": "r", "same": True, "before": RUN, "after": RUN}
TWO = {"receipts": [{"id": "r1"}, {"id": "r2"}]}
ANSWER = {"session_id": "s", "turn_id": "1", "answer": "x"}


async def test_receipts_are_filtered() -> None:
    seen = Recorder({"receipts": {"receipts": []}})
    query = "session_id=s&agent_id=a&outcome=error&reason=model_timeout&engine=llm&degraded=true"
    async with calling(make_app(seen)) as client:
        answer = await client.get(f"/v1/receipts?{query}&since=2026-03-01&until=2026-03-05&brief=1")
    assert answer.status_code == 200, answer.text
    ((_, payload),) = seen.asked
    assert payload["brief"] is True
    assert payload["where"] == {
        "session_id": "s",
        "agent_id": "a",
        "outcome": Outcome.ERROR,
        "reason": Reason.MODEL_TIMEOUT,
        "engine": "llm",
        "degraded": True,
        "since": "2026-03-01T00:00:00Z",
        "until": "2026-03-05T23:59:59.999999Z",
    }


@pytest.mark.parametrize("query", ["reason=bad_mood", "outcome=sad", "since=yesterday", "degraded=perhaps", "limit=0"])
async def test_invalid_filters_are_refused(query: str) -> None:
    seen = Recorder({"receipts": {"receipts": []}})
    async with calling(make_app(seen)) as client:
        answer = await client.get(f"/v1/receipts?{query}")
    assert (answer.status_code, answer.json()["reason"]) == (422, "bad_request")
    assert answer.headers["content-type"] == "application/problem+json"
    assert seen.asked == []


async def test_a_replay_passes_all_changes_and_its_own_budget() -> None:
    seen = Recorder({"replay": SAME})
    changes = {"prompt": "p", "model": "openai/x", "mode": "always", "settings": {"max_items": 1}, "current": True}
    async with calling(make_app(seen)) as client:
        answer = await client.post("/v1/receipts/r/replay", json={**changes, "deadline_ms": 9000, "tenant": "t"})
        unknown = await client.post("/v1/receipts/r/replay", json={"max_items": 1})
    assert answer.json() == SAME
    assert unknown.status_code == 422
    ((_, payload),) = seen.asked
    assert payload == {"tenant": "t", "id": "r", "changes": {**changes, "deadline_ms": 9000}}
    assert 50 < seen.left[0] <= 60


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFound("there is no receipt r"), 404),
        (OperationError(Reason.BAD_REQUEST, "receipt r keeps no texts"), 422),
        (SettingsError("max_items: no"), 422),
        (QueueError(Reason.NO_WORKER, "no worker is running"), 503),
        (OperationError(Reason.DEADLINE, "too late"), 504),
    ],
)
@pytest.mark.parametrize("what", ["replay", "label"])
async def test_errors_become_problems(what: str, error: Exception, status: int) -> None:
    async with calling(make_app(Recorder({what: error}))) as client:
        answer = await client.post(f"/v1/receipts/r/{what}", json={"accept": True} if what == "label" else {})
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_several_replays_run_in_order_and_are_summarized() -> None:
    changed = {**SAME, "same": False, "after": {**RUN, "chosen": ["m"], "elapsed_ms": 7.0}}
    answers = iter([changed, NotFound("there is no receipt r2")])
    seen = Recorder({"receipts": TWO, "replay": lambda _: next(answers)})
    body = {"tenant": "t", "where": {"outcome": "injected"}, "changes": {"mode": "always"}, "limit": 2}
    async with calling(make_app(seen)) as client:
        found = (await client.post("/v1/replays", json=body)).json()
    assert [(name, payload["tenant"], payload.get("id")) for name, payload in seen.asked] == [
        ("receipts", "t", None),
        ("replay", "t", "r1"),
        ("replay", "t", "r2"),
    ]
    assert (seen.asked[0][1]["where"], seen.asked[0][1]["limit"]) == ({"outcome": "injected"}, 2)
    assert (found["replayed"], found["failed"], found["same"], found["memories_added"]) == (1, 1, 0, 1)
    assert (found["median_ms_before"], found["median_ms_after"], found["not_run"]) == (5.0, 7.0, [])
    assert found["replays"] == [changed, {"receipt_id": "r2", "error": "there is no receipt r2"}]


async def test_replays_stop_at_their_time_limit() -> None:
    async def slow() -> dict[str, Any]:
        await asyncio.sleep(30)
        return SAME

    seen = Recorder({"receipts": TWO, "replay": lambda _: slow()})
    async with calling(make_app(seen)) as client:
        async with asyncio.timeout(15):
            found = (await client.post("/v1/replays", json={"within_ms": 400})).json()
        bounds = [await client.post("/v1/replays", json={name: 10**7}) for name in ("limit", "within_ms")]
    assert (found["replayed"], found["failed"], found["not_run"]) == (0, 1, ["r2"])
    assert [answer.status_code for answer in bounds] == [422, 422]


async def test_replays_stop_when_the_caller_leaves() -> None:
    begun = asyncio.Event()

    async def slow() -> dict[str, Any]:
        begun.set()
        await asyncio.sleep(30)
        return SAME

    seen = Recorder({"receipts": TWO, "replay": lambda _: slow()})
    talk = Conversation("/v1/replays", {})
    task = asyncio.create_task(make_app(seen)(talk.scope, talk.receive, talk.send))
    async with asyncio.timeout(15):
        await begun.wait()
        talk.leave()
        await task
    assert [name for name, _ in seen.asked] == ["receipts", "replay"]


@pytest.mark.parametrize("path", ["/v1/receipts/r/replay", "/v1/replays"])
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, 200),
        ({"model": "none"}, 200),
        ({"settings": {"max_items": 1}}, 200),
        ({"model": "openai/dear"}, 403),
        ({"settings": {"models": ["openai/dear"]}}, 403),
        ({"settings": {"force_patterns": ["(a|a)+$"]}}, 403),
        ({"settings": {"max_items": 1, "skip_patterns": []}}, 403),
        ({"settings": {"strip_patterns": ["x"]}}, 403),
    ],
)
async def test_a_token_of_one_tenant_may_not_name_models_or_patterns_or_leave_its_tenant(
    path: str, changes: dict[str, Any], status: int
) -> None:
    body = {"tenant": "other", **({"changes": changes} if path == "/v1/replays" else changes)}
    seen = Recorder({"receipts": TWO, "replay": SAME})
    async with calling(make_app(seen, tokens=both_tokens()), ACME_TOKEN) as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == status, answer.text
    assert {payload["tenant"] for _, payload in seen.asked} == ({"acme"} if status == 200 else set())
    async with calling(make_app(seen, tokens=both_tokens()), TOKEN) as client:
        assert (await client.post(path, json=body)).status_code == 200
    assert seen.asked[-1][1]["tenant"] == "other"


@pytest.mark.parametrize(
    ("body", "labels"),
    [
        ({"essential": ["m"], "forbidden": ["n"]}, {"essential": ["m"], "forbidden": ["n"]}),
        ({"accept": True, "category": "x"}, {"accept": True, "category": "x"}),
        ({"nothing": True}, {"essential": [], "accept": False}),
        ({"missing": ["m"]}, {"missing": ["m"]}),
        ({"nothing": True, "forbidden": ["n"]}, {"forbidden": ["n"]}),
        ({}, None),
        ({"nothing": True, "essential": ["m"]}, None),
        ({"nothing": True, "missing": ["m"]}, None),
        ({"accept": True, "nothing": True}, None),
    ],
)
async def test_contradictory_labels_are_refused(body: dict[str, Any], labels: dict[str, Any] | None) -> None:
    seen = Recorder({"label": {"task": {}, "memories": []}})
    async with calling(make_app(seen)) as client:
        answer = await client.post("/v1/receipts/r/label", json=body)
    assert answer.status_code == (422 if labels is None else 200)
    if labels is not None:
        assert labels.items() <= seen.asked[0][1]["labels"].items()
        assert "nothing" not in seen.asked[0][1]["labels"]
        assert ("missing" in seen.asked[0][1]["labels"]) is ("missing" in body)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NotFound("no receipt of this turn is kept"), "not_found"),
        (QueueError(Reason.NO_WORKER, "no worker is running"), "no_worker"),
        (OperationError(Reason.DEADLINE, "too late"), "deadline"),
    ],
)
async def test_trouble_with_an_answer_is_no_error(error: Exception, reason: str) -> None:
    async with calling(make_app(Recorder({"post_execution": error}))) as client:
        answer = await client.post("/v1/answers", json=ANSWER)
        wrong = await client.post("/v1/answers", json={"session_id": "s"})
    assert (answer.status_code, answer.json()["done"], answer.json()["reason"]) == (200, False, reason)
    assert wrong.status_code == 422


async def test_the_shortest_deadline_of_an_answer_holds() -> None:
    seen = Recorder({"post_execution": {"done": True}})
    async with calling(make_app(seen)) as client:
        await client.post("/v1/answers?deadline_ms=700", json={**ANSWER, "deadline_ms": 5000})
    assert seen.asked[0][1]["deadline_ms"] == 700
    assert seen.left[0] <= 0.7


async def test_a_body_that_is_too_long_is_not_read() -> None:
    seen = Recorder({"post_execution": {"done": True}, "replay": SAME})
    async with calling(make_app(seen, body_limit=1000)) as client:
        answers = [
            await client.post("/v1/answers", json={**ANSWER, "answer": "x" * 2000}),
            await client.post("/v1/receipts/r/replay", json={"prompt": "x" * 2000}),
        ]
    assert [answer.status_code for answer in answers] == [413, 413]
    assert seen.asked == []
