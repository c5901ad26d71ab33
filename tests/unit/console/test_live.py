"""The live list: one look for all who watch it, filters, slow readers, and its end."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from hooks.contract import Outcome
from tests.support.http import Recorder
from worker.console import live
from worker.console.live import LOOKED_AT, RELOAD, RETRY, LiveRequests
from worker.domain.receipt_summary import ReceiptSummary
from worker.operations.local_client import LocalOperationClient
from worker.receipts.search import ReceiptFilter


def line(number: int, outcome: str = "injected") -> dict[str, Any]:
    at = datetime(2026, 1, 1, tzinfo=UTC).isoformat()
    names = {"session_id": "s", "agent_id": "main", "turn_id": f"t{number}"}
    return {"id": f"r{number}", "at": at, "outcome": outcome, "message": f"message {number}", **names}


class Feed:
    """Requests that tests add, and how often they were looked at."""

    def __init__(self) -> None:
        self.lines = [line(0)]
        self.recorder = Recorder({"receipt_page": self._page})

    def _page(self, payload: dict[str, Any]) -> dict[str, Any]:
        where = ReceiptFilter.model_validate(payload["where"])
        fitting = [one for one in self.lines[::-1] if where.matches(ReceiptSummary.model_validate(one))]
        return {"summaries": fitting[: payload["limit"]], "cursor": None}

    def live(self) -> LiveRequests:
        return LiveRequests(LocalOperationClient(self.recorder.handlers), rows)


def rows(summaries: "list[ReceiptSummary] | Any") -> str:
    return "\n".join(f"<tr>{one.id}" for one in summaries)


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "LOOK_S", 0.01)


def events_of(requests: LiveRequests, **where: Any) -> Any:
    response = requests.response("default", where, "r0")
    assert isinstance(response, StreamingResponse)
    return response.body_iterator


async def looked(feed: Feed, times: int) -> None:
    """Wait until the list was looked at so many times from now on."""
    end = len(feed.recorder.asked) + times
    async with asyncio.timeout(5):
        while len(feed.recorder.asked) < end:
            await asyncio.sleep(0.005)


async def test_all_who_watch_get_the_same_rows_of_one_look() -> None:
    feed = Feed()
    requests = feed.live()
    first, second = events_of(requests), events_of(requests)
    assert await anext(first) == await anext(second) == RETRY
    both = asyncio.gather(anext(first), anext(second))
    await looked(feed, 2)
    feed.lines.append(line(1))
    assert await both == [b"event: rows\ndata: <tr>r1\n\n"] * 2
    assert requests.streams == 2
    await first.aclose()
    await second.aclose()
    assert requests.streams == 0
    asked = len(feed.recorder.asked)
    await asyncio.sleep(0.05)
    assert len(feed.recorder.asked) <= asked + 1, "nobody watches, so nothing is looked for"


async def test_a_filtered_list_gets_only_its_rows() -> None:
    feed = Feed()
    events = events_of(feed.live(), outcome=Outcome.SKIPPED.value)
    await anext(events)
    waiting = asyncio.ensure_future(anext(events))
    await looked(feed, 2)
    feed.lines += [line(1), line(2, "skipped")]
    assert await waiting == b"event: rows\ndata: <tr>r2\n\n"
    await events.aclose()


async def test_what_came_between_the_page_and_its_stream_is_not_missed() -> None:
    feed = Feed()
    feed.lines += [line(1), line(2)]
    events = events_of(feed.live())
    assert await anext(events) == RETRY
    assert await anext(events) == b"event: rows\ndata: <tr>r2\ndata: <tr>r1\n\n"
    await events.aclose()


async def test_a_filtered_page_misses_nothing_behind_many_others() -> None:
    feed = Feed()
    feed.lines += [line(1, "skipped"), *(line(number) for number in range(2, 2 + 2 * LOOKED_AT))]
    events = events_of(feed.live(), outcome=Outcome.SKIPPED.value)
    assert await anext(events) == RETRY
    assert await anext(events) == b"event: rows\ndata: <tr>r1\n\n"
    await events.aclose()


async def test_a_page_that_missed_too_much_reloads() -> None:
    feed = Feed()
    feed.lines += [line(number) for number in range(1, 1 + LOOKED_AT)]
    assert [event async for event in events_of(feed.live())] == [RETRY, RELOAD]


async def test_a_slow_reader_is_told_to_reload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "MOST_WAITING", 1)
    feed = Feed()
    events = events_of(feed.live())
    await anext(events)
    first = asyncio.ensure_future(anext(events))
    for number in (1, 2, 3):
        await looked(feed, 2)
        feed.lines.append(line(number))
    await looked(feed, 2)
    assert await first == b"event: rows\ndata: <tr>r1\n\n"
    assert [event async for event in events] == [b"event: rows\ndata: <tr>r2\n\n", RELOAD]


async def test_streams_end_with_the_service_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    requests = Feed().live()
    events = events_of(requests)
    await anext(events)
    monkeypatch.setattr(live, "MOST_STREAMS", 1)
    assert requests.response("default", {}).status_code == 503
    requests.stop()
    assert [event async for event in events] == []
    assert requests.response("default", {}).status_code == 503
