"""What the overview says of the latest requests, and of what needs attention."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hooks.contract import Outcome, Reason
from tests.support.console import HEALTH, browsing
from tests.support.http import Recorder
from worker.console.activity import HEIGHT, activity_of
from worker.console.pages.overview import MOST_REQUESTS
from worker.console.parts import parts_of
from worker.domain.errors import QueueError
from worker.domain.receipt_summary import ReceiptSummary
from worker.operations.client import QueueState
from worker.operations.results import HealthResult

NOW = datetime(2026, 3, 4, 12, 30, tzinfo=UTC)


def request(minutes: float, **fields: Any) -> ReceiptSummary:
    """Return a request so many minutes ago."""
    at = NOW - timedelta(minutes=minutes)
    names = {"id": f"r{minutes}", "session_id": "s", "agent_id": "main", "turn_id": "t"}
    given = {"outcome": Outcome.INJECTED, "chosen": 2, "elapsed_ms": 100.0, "deadline_ms": 3000}
    return ReceiptSummary.model_validate({"at": at, **names, **given, **fields})


FAILED = {"outcome": Outcome.ERROR, "reason": Reason.STORE_UNAVAILABLE, "chosen": 0}
FALLBACK = {"reason": Reason.MODEL_UNREACHABLE, "degraded": True}


def test_requests_are_counted_by_what_happened_and_over_time() -> None:
    requests = [request(1), request(2, **FAILED), request(61, outcome=Outcome.SKIPPED, chosen=0), request(3000)]
    activity = activity_of(requests, NOW, complete=True)
    assert {one.kind: one.count for one in activity.kinds} == {"good": 1, "none": 1, "warn": 0, "bad": 1}
    assert [sum(span.counts.values()) for span in activity.spans[-3:]] == [0, 1, 2]
    assert activity.spans[-1].at == NOW.replace(minute=0)
    top = min(piece.y for piece in activity.pieces)
    assert top == 0
    assert sum(piece.height for piece in activity.pieces) == HEIGHT * 1.5


def test_a_busy_service_shows_the_time_of_what_is_counted() -> None:
    activity = activity_of([request(0), request(12), request(24)], NOW, complete=False)
    assert (activity.since, len(activity.spans)) == (NOW - timedelta(minutes=24), 24)
    assert [number for number, span in enumerate(activity.spans) if span.counts["good"]] == [0, 12, 23]


def test_times_are_those_of_requests_that_searched() -> None:
    times = [request(number / 10, elapsed_ms=float(number)) for number in range(1, 101)]
    skipped = [request(11, outcome=Outcome.SKIPPED, elapsed_ms=0.1)]
    activity = activity_of([*times, *skipped], NOW, complete=True)
    assert activity.percentiles_ms == {"p50": 50.0, "p95": 95.0, "p99": 99.0}
    assert (activity.deadline_ms, activity.items) == (3000, 2.0)


def test_what_went_wrong_is_counted_by_reason_and_leads_to_its_requests() -> None:
    requests = [request(1, **FALLBACK), request(2, **FAILED), request(3, **FALLBACK), request(4)]
    failed, fallback = activity_of(requests, NOW, complete=True).troubles
    assert (failed.count, failed.words) == (1, "failed: the store does not answer")
    assert failed.filters == {"outcome": "error", "reason": "store_unavailable", "since": "2026-03-04T12:28:00Z"}
    assert (fallback.count, fallback.words) == (2, "got a fallback: without the model: it cannot be reached")
    assert fallback.filters == {"degraded": "yes", "reason": "model_unreachable", "since": "2026-03-04T12:27:00Z"}


def test_agents_are_told_apart_and_what_was_only_tried_out_is_left_out() -> None:
    requests = [request(1, agent_id="a", cost=0.25), request(2, agent_id="b"), request(3, agent_id="b", **FALLBACK)]
    activity = activity_of([*requests, request(4, agent_id="a", dry_run=True)], NOW, complete=True)
    assert [(row.agent, row.requests, row.given, row.troubled) for row in activity.agents] == [
        ("b", 2, 2, 1),
        ("a", 1, 1, 0),
    ]
    assert activity.cost == 0.25


def test_without_requests_there_is_nothing_to_show() -> None:
    activity = activity_of([], NOW, complete=True)
    assert (activity.requests, activity.percentiles_ms, activity.items, activity.cost) == (0, {}, None, None)
    assert activity.pieces == []


async def test_the_page_names_what_needs_attention() -> None:
    now = datetime.now(UTC)
    lines = [{**request(1, **FALLBACK).model_dump(mode="json"), "at": now.isoformat()}]
    model = {"name": "qwen", "failures": 12, "last": "model_unreachable", "paused_s": 30}
    answers = {"health": {**HEALTH, "models": [model]}, "receipt_page": {"summaries": lines, "cursor": None}}
    async with browsing(Recorder(answers)) as client:
        page = (await client.get("/?tenant=acme")).text
        shown = (await client.get("/overview.json")).json()
    assert "Model: qwen failed 12 times in a row: without the model: it cannot be reached; it is tried again in" in page
    assert ">1 request</a> got a fallback" in page
    assert "/requests?degraded=yes&amp;reason=model_unreachable" in page
    assert "tenant=acme" in page.partition("reason=model_unreachable")[2][:60]
    assert shown["activity"]["requests"] == 1
    assert shown["needs"][0]["command"] == "meeseeks doctor"


async def test_it_counts_a_bounded_number_of_requests_and_says_so() -> None:
    now = datetime.now(UTC)
    line = {**request(1).model_dump(mode="json"), "at": now.isoformat()}

    def page(payload: dict[str, Any]) -> dict[str, Any]:
        begin = int(payload["cursor"] or 0)
        ids = range(begin, begin + payload["limit"])
        return {"summaries": [{**line, "id": str(number)} for number in ids], "cursor": str(begin + payload["limit"])}

    async with browsing(Recorder({"receipt_page": page})) as client:
        text = (await client.get("/")).text
    assert f"The latest {MOST_REQUESTS}, since" in text


def test_turns_that_got_nothing_are_counted_by_why() -> None:
    requests = [
        request(1, outcome=Outcome.NONE_RELEVANT, chosen=0),
        request(2, outcome=Outcome.SKIPPED, chosen=0),
        request(3, outcome=Outcome.NONE_RELEVANT, chosen=0),
        request(4, outcome=Outcome.NONE_RELEVANT, chosen=0, **FALLBACK),
        request(5),
    ]
    nothing = activity_of(requests, NOW, complete=True).nothing
    assert [(one.words, one.count) for one in nothing] == [("nothing fit", 2), ("not searched", 1)]
    assert nothing[0].filters["outcome"] == "none_relevant"


IDLE = QueueState(0, alive=True)


def parts(queue: QueueState | None = IDLE, *, counts: bool = True, **changes: Any) -> dict[str, Any]:
    """Return the parts of a healthy service with some changes: kind and words by name."""
    found = parts_of(HealthResult.model_validate({**HEALTH, **changes}), queue, counts=counts)
    return {one.name: (one.mark.kind, one.mark.words, one.command) for one in found}


def test_parts_of_a_healthy_service_need_nothing() -> None:
    found = parts()
    assert found["Queue"] == ("good", "a worker takes requests from it: 0 requests wait", None)
    assert found["Store"] == ("good", "edge; 3 memories", None)
    assert all(command is None for _, _, command in found.values())


def test_each_part_that_fails_names_the_command_that_mends_it() -> None:
    paused = {"name": "qwen", "failures": 5, "last": "model_unreachable", "paused_s": 12.0}
    store = {"engine": "server", "points": 3, "dense_usable": False, "fault": "vectors of another embedder"}
    found = parts(None, models=[paused], store=store, settings={"faults": {"file": "not TOML"}})
    assert found["Queue"][::2] == ("bad", "meeseeks doctor")
    assert found["Store"] == ("bad", "vectors of another embedder", "meeseeks store info")
    assert found["Model"][1].endswith("in a row: without the model: it cannot be reached; it is tried again in 12 s")
    assert found["Settings"][:2] == ("bad", "file not in force: not TOML")
    assert parts(QueueState(2, alive=False))["Queue"] == (
        "bad",
        "no worker takes requests from it: 2 requests wait",
        "meeseeks start",
    )


def test_what_concerns_all_tenants_is_not_counted_for_one() -> None:
    found = parts(QueueState(7, alive=True), counts=False)
    assert not any(number in found["Queue"][1] + found["Store"][1] for number in "37")


async def test_without_a_worker_the_page_says_what_to_do() -> None:
    def refuse(payload: dict[str, Any]) -> Any:
        raise QueueError(Reason.NO_WORKER, "no worker is running; start one with `meeseeks start`")

    async with browsing(Recorder({"health": refuse}), queue=QueueState(3, alive=False)) as client:
        page = await client.get("/")
        shown = (await client.get("/overview.json")).json()
    assert page.status_code == 200
    assert "No worker answers" in page.text
    assert "3 requests wait" in page.text
    assert [need["command"] for need in shown["needs"]] == ["meeseeks doctor", "meeseeks start"]
    assert shown["activity"] is None
