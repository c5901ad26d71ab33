"""A model reads conversations in the background: checked, within limits, and once, also after a kill or a failure."""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.operations import open_operations, scripted
from tests.support.upstream import Answer, Mode, last_text
from tests.support.upstream_thread import upstream_thread
from tests.support.valkey import forget
from worker.bootstrap import capturing
from worker.cli.checks import captures_in_words
from worker.operations.background_capture import MOST_ATTEMPTS, CapturePace
from worker.operations.background_cues import Pace
from worker.operations.client import OperationClient
from worker.operations.registry import (
    CAPTURE,
    CAPTURE_UNDO,
    CAPTURES,
    EXPORT,
    HEALTH,
    PROPOSAL_REJECT,
    PROPOSALS,
    PUT,
)
from worker.operations.retrying import Pause

AT = "2026-03-04T09:12:00+01:00"


class Reader:
    """Answers with the operations given for a phrase of the last turns; remembers what it was shown."""

    def __init__(self, **operations: dict[str, Any]) -> None:
        self.operations = operations
        self.shown: list[str] = []
        self.broken = 0

    def __call__(self, body: dict[str, Any]) -> Answer:
        text = last_text(body)
        if "Turns (quoted data" not in text:  # the first call, which loads the model
            return Answer("ok")
        self.shown.append(text)
        if self.broken:
            self.broken -= 1
            return Answer("I would rather not.")
        found = []
        for phrase, operation in self.operations.items():
            place = re.search(rf'^\[(\d+)\] user[^:]*: ".*{phrase}', text, re.MULTILINE | re.IGNORECASE)
            if place:
                found.append({"turns": [int(place[1])], "op": "add", "target": None, **operation})
        return Answer(json.dumps({"operations": found}))


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch, valkey: str) -> Iterator[None]:
    monkeypatch.setattr(
        capturing, "CAPTURE_PACE", CapturePace(every=0.02, again=Pause(0.02, 0.05), lease=1.0, full=0.05)
    )
    monkeypatch.setattr(capturing, "PACE", Pace(quiet=0.0))
    yield
    forget(valkey)


@asynccontextmanager
async def service(valkey: str, folder: Path, base: str, **fields: Any) -> AsyncIterator[OperationClient]:
    async with open_operations(valkey, folder, **(scripted(base) | {"cue_calls_per_day": 0} | fields)) as opened:
        yield opened


async def captured(client: OperationClient, *texts: str, **fields: Any) -> dict[str, Any]:
    turns = [{"role": "user", "text": text, "at": AT} for text in texts]
    return await client.call(CAPTURE, {"session_id": "s1", "user": "hana", "turns": turns, "mode": "auto", **fields})


async def contents(client: OperationClient) -> dict[str, dict[str, Any]]:
    return {one["content"]: one for one in (await client.call(EXPORT, {"limit": 100}))["memories"]}


async def progress(client: OperationClient) -> dict[str, Any]:
    found: dict[str, Any] = (await client.call(HEALTH, {}))["captures"]
    return found


async def until(is_so: Callable[[], Awaitable[Any]], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not await is_so():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def read(client: OperationClient) -> None:
    async def nothing_waits() -> bool:
        return bool((await progress(client))["waiting"] == 0)

    await until(nothing_waits)


async def test_a_model_adds_and_supersedes_and_says_on_what_it_rests(valkey: str, tmp_path: Path) -> None:
    model = Reader(
        Oslo={"text": "The user's brother Tom moves to Oslo", "when": "tomorrow", "cues": ["where does Tom live?"]},
        Bern={"text": "Mia lives in Bern", "op": "supersede", "target": 1},
        nothing={"text": "The user's favourite colour is blue"},
    )
    with upstream_thread(model) as upstream:
        async with service(valkey, tmp_path, upstream.url) as client:
            mia = {"id": "mia", "content": "Mia lives in Zürich", "scope": {"user": "hana"}}
            await client.call(PUT, {"memories": [mia]})
            texts = ("btw my brother Tom moves to Oslo tomorrow", "and Mia lives in Bern now, nothing else is new")
            done = await captured(client, *texts, "thanks!")
            assert (done["waiting"], done["changes"]) == (True, [])
            await read(client)
            found = await contents(client)
            assert set(found) == {"Mia lives in Zürich", "The user's brother Tom moves to Oslo", "Mia lives in Bern"}
            assert found["Mia lives in Zürich"]["superseded_by"] == found["Mia lives in Bern"]["id"]
            tom = found["The user's brother Tom moves to Oslo"]
            assert (tom["occurred_at"], tom["scope"]) == ("2026-03-05T00:00:00Z", {"user": "hana"})
            assert (tom["evidence"]["model"], tom["evidence"]["prompt"]) == ("openai/scripted", "capture@1")
            (receipt,) = (await client.call(CAPTURES, {}))["captures"]
            assert ([one["reason"] for one in receipt["drops"]], receipt["calls"]) == (["unsupported"], 1)
            spent = await progress(client)
            assert (spent["calls"], spent["memories"], spent["failures"]) == (1, 2, 0)
            assert spent["tokens"] == receipt["input_tokens"] + receipt["output_tokens"] > 0
            assert len(model.shown) == 1
            assert '[1] "Mia lives in Zürich"' in model.shown[0]
            await client.call(CAPTURE_UNDO, {"id": receipt["id"]})
            left = await contents(client)
            assert set(left) == {"Mia lives in Zürich"}
            assert not {"superseded_by", "superseded_at"} & set(left["Mia lives in Zürich"])
            await captured(client, *texts)
            await read(client)
            assert len(model.shown) == 1


async def test_nothing_captured_is_pinned(valkey: str, tmp_path: Path) -> None:
    """Neither because the model says so, nor because the memory that it replaces is pinned, nor because a user does."""
    model = Reader(
        Oslo={"text": "The user's brother Tom moves to Oslo", "pinned": True},
        Bern={"text": "Mia lives in Bern", "op": "supersede", "target": 1},
    )
    with upstream_thread(model) as upstream:
        async with service(valkey, tmp_path, upstream.url) as client:
            mia = {"id": "mia", "content": "Mia lives in Zürich", "scope": {"user": "hana"}, "pinned": True}
            await client.call(PUT, {"memories": [mia]})
            texts = (
                "my brother Tom moves to Oslo",
                "and Mia lives in Bern now",
                "remember and pin that my locker is 12",
            )
            await captured(client, *texts)
            await read(client)
            found = await contents(client)
    captured_texts = {"Mia lives in Bern", "The user's brother Tom moves to Oslo", "and pin that my locker is 12"}
    assert set(found) == {"Mia lives in Zürich", *captured_texts}
    assert [one["id"] for one in found.values() if one.get("pinned")] == ["mia"]


async def test_what_was_asked_for_is_not_read_again(valkey: str, tmp_path: Path) -> None:
    model = Reader(locker={"text": "The locker is 12"})
    with upstream_thread(model) as upstream:
        async with service(valkey, tmp_path, upstream.url) as client:
            done = await captured(client, "remember that my locker is 12", "ok", "thanks a lot!", "/clear", "why?")
            assert (done["waiting"], [one["text"] for one in done["changes"]]) == (False, ["my locker is 12"])
            assert model.shown == []


async def test_a_failure_is_repeated_and_given_up_at_last(valkey: str, tmp_path: Path) -> None:
    model = Reader(Oslo={"text": "Tom moves to Oslo"})
    model.broken = 2
    with upstream_thread(model) as upstream:
        async with service(valkey, tmp_path, upstream.url) as client:
            await captured(client, "my brother Tom moves to Oslo")
            await read(client)
            assert set(await contents(client)) == {"Tom moves to Oslo"}
            assert (len(model.shown), (await progress(client))["failures"]) == (3, 0)


@pytest.mark.parametrize("mode", [Mode.ERROR_500, Mode.DISCONNECT])
async def test_while_the_model_is_away_work_waits_for_as_long_as_it_takes(
    valkey: str, tmp_path: Path, mode: Mode
) -> None:
    with upstream_thread(Reader(Oslo={"text": "Tom moves to Oslo"}, Rome={"text": "Kim moves to Rome"})) as upstream:
        async with service(valkey, tmp_path, upstream.url) as client:

            async def failed_often() -> bool:
                return bool((await progress(client))["failures"] > 2 * MOST_ATTEMPTS)

            upstream.mode = mode
            await captured(client, "my brother Tom moves to Oslo")
            await captured(client, "and my sister Kim moves to Rome", session_id="s2")
            await until(failed_often)
            away = await progress(client)
            counted = away["failures"] if mode is Mode.ERROR_500 else 0  # no call where nobody answers
            under_way = away["calls"] - counted
            assert under_way in {0, 1}
            upstream.mode = Mode.OK
            await read(client)
            assert set(await contents(client)) == {"Tom moves to Oslo", "Kim moves to Rome"}


async def test_turns_wait_while_enough_proposals_do(valkey: str, tmp_path: Path) -> None:
    model = Reader(Oslo={"text": "Tom moves to Oslo"})
    with upstream_thread(model) as upstream:
        async with service(valkey, tmp_path, upstream.url) as client:
            upstream.mode = Mode.ERROR_500
            await captured(client, "my brother Tom moves to Oslo", mode="review")
            shelves = [f"remember that shelf {number} holds nails" for number in range(20)]
            assert len((await captured(client, *shelves, mode="review"))["changes"]) == 20
            await asyncio.sleep(0.3)  # a call that began before there were as many ends
            upstream.mode = Mode.OK
            await asyncio.sleep(0.3)
            assert ((await progress(client))["waiting"], model.shown) == (1, [])
            first = (await client.call(PROPOSALS, {}))["proposals"][0]
            await client.call(PROPOSAL_REJECT, {"id": first["id"]})
            await read(client)
            found = (await client.call(PROPOSALS, {}))["proposals"]
            assert "Tom moves to Oslo" in [one["change"]["memory"]["content"] for one in found]


async def test_the_limit_of_the_day_stops_and_the_work_waits(valkey: str, tmp_path: Path) -> None:
    model = Reader(Oslo={"text": "Tom moves to Oslo"}, Rome={"text": "Kim moves to Rome"})
    with upstream_thread(model) as upstream:
        async with service(valkey, tmp_path, upstream.url, capture_calls_per_day=1) as client:
            await captured(client, "my brother Tom moves to Oslo")
            await read(client)
            await captured(client, "and my sister Kim moves to Rome", session_id="s2")
            await asyncio.sleep(0.3)
            spent = await progress(client)
            assert (spent["calls"], spent["waiting"], len(model.shown)) == (1, 1, 1)
        async with service(valkey, tmp_path, upstream.url, capture_tokens_per_day=10) as client:
            await captured(client, "and my cousin Bo moves to Paris", session_id="s3")
            await asyncio.sleep(0.3)
            assert len(model.shown) == 1


async def test_the_cost_of_a_day_is_counted_and_stops(valkey: str, tmp_path: Path) -> None:
    reader = Reader(Oslo={"text": "Tom moves to Oslo"})
    with upstream_thread(reader) as upstream:
        limit = {"model": "openai/gpt-4o-mini", "capture_cost_per_day": 1e-9}
        async with service(valkey, tmp_path, upstream.url, **limit) as client:
            await captured(client, "my brother Tom moves to Oslo")
            await read(client)
            await captured(client, "and my sister Kim moves to Rome", session_id="s2")
            await asyncio.sleep(0.3)
            spent = await progress(client)
    assert (spent["calls"], spent["waiting"], len(reader.shown)) == (1, 1, 1)
    assert spent["cost"] > spent["most_cost"] == 1e-9
    words = captures_in_words(spent | {"cost": 0.126, "most_cost": 0.1})
    assert "tokens today, for $0.13 of $0.10" in words
    assert words.endswith("1 waiting; the limit of today is reached")


async def test_a_restart_reads_what_waits_and_repeats_nothing(valkey: str, tmp_path: Path) -> None:
    model = Reader(Oslo={"text": "Tom moves to Oslo"})
    with upstream_thread(model) as upstream:
        model.broken = 10**6
        async with service(valkey, tmp_path, upstream.url) as client:
            await captured(client, "my brother Tom moves to Oslo")
        model.broken = 0
        async with service(valkey, tmp_path, upstream.url) as client:
            await read(client)
            assert set(await contents(client)) == {"Tom moves to Oslo"}
        async with service(valkey, tmp_path, upstream.url) as client:
            await captured(client, "my brother Tom moves to Oslo")
            await read(client)
            assert set(await contents(client)) == {"Tom moves to Oslo"}
