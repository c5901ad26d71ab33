"""The list of requests and one request, over answers that tests choose."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.console import READING_TOKEN, browsing, fields_in, sign_in, with_tokens
from tests.support.http import Recorder

RECEIPT: dict[str, Any] = {
    "id": "r1",
    "at": "2026-03-04T09:12:00Z",
    "request": {
        "session_id": "s",
        "turn_id": "t",
        "message": "what about the booth",
        "deadline_ms": 3000,
        "scope": {"tenant": "default"},
    },
    "outcome": "injected",
    "chosen": ["m1"],
    "considered": [
        {"id": "m1", "type": "fact", "text": "Booth booked", "version": 1, "score": 1, "verdict": "chosen"},
        {"id": "m2", "type": "fact", "text": "Booth green", "version": 1, "score": 1, "verdict": "not_selected"},
    ],
}
ANSWERS: dict[str, Any] = {
    "receipt": RECEIPT,
    "receipt_page": {"summaries": [], "cursor": None},
    "keep_case": {"id": "c1", "file": "cases/default.jsonl", "essential": 0, "useful": 0, "forbidden": 0},
}


async def test_a_page_without_a_find_says_how_far_it_looked() -> None:
    found = {"summaries": [], "cursor": "next", "back_to": "2026-01-02T03:04:05Z"}
    async with browsing(Recorder({"receipt_page": found})) as client:
        page = (await client.get("/requests?words=booth")).text
        assert "None of the requests back to 2 Jan 2026, 03:04:05 UTC fits these filters." in page
        assert 'rel="next"' in page
        assert (await client.get("/requests.json?words=booth")).json()["searched_back_to"] == "2026-01-02T03:04:05Z"
        assert (await client.get("/requests.json")).json()["searched_back_to"] is None


@pytest.mark.parametrize(
    ("sent", "labels"),
    [
        ({"nothing": "yes", "label:m1": "essential"}, ([], [], [], False)),
        ({"nothing": "yes", "label:m1": "forbidden"}, ([], [], ["m1"], False)),
        ({"label:m1": "essential", "label:m2": "forbidden"}, (["m1"], [], ["m2"], False)),
        ({"accept": "yes"}, ([], [], [], True)),
    ],
)
async def test_a_label_says_what_should_have_come(sent: dict[str, str], labels: tuple[Any, ...]) -> None:
    recorder = Recorder(ANSWERS)
    async with browsing(recorder) as client:
        page = (await client.get("/requests/r1")).text
        assert 'type="checkbox" name="nothing"' in page
        answer = await client.post("/requests/label", data={**fields_in(page), "id": "r1", **sent})
        assert answer.status_code == 200
    kept = next(payload["labels"] for name, payload in recorder.asked if name == "keep_case")
    assert (kept["essential"], kept["useful"], kept["forbidden"], kept["accept"]) == labels


@pytest.mark.parametrize(("reason", "offered"), [("too_far", True), ("other_owner", False), ("considered", False)])
async def test_what_was_missed_can_be_labelled(reason: str, offered: bool) -> None:
    found = {"receipt_id": "r1", "memory_id": "m9", "reason": reason, "why": "it is far away"}
    recorder = Recorder({**ANSWERS, "explain_memory": found})
    async with browsing(recorder) as client:
        page = (await client.get("/requests/r1?memory=m9")).text
        assert ("It should have come" in page) is offered
        await client.post("/requests/label", data={**fields_in(page), "id": "r1", "missing": "m9"})
    assert dict(recorder.asked)["keep_case"]["labels"]["missing"] == ["m9"]


async def test_a_label_that_says_nothing_is_refused() -> None:
    async with browsing(Recorder(ANSWERS)) as client:
        page = (await client.get("/requests/r1")).text
        answer = await client.post("/requests/label", data={**fields_in(page), "id": "r1", "label:m1": ""})
        assert answer.status_code == 422


async def test_that_nothing_was_given_can_be_right() -> None:
    quiet = {**RECEIPT, "outcome": "none_relevant", "chosen": [], "considered": []}
    async with browsing(Recorder({**ANSWERS, "receipt": quiet})) as client:
        page = (await client.get("/requests/r1")).text
    form = page.partition('action="/requests/label"')[2].partition("</form>")[0]
    assert 'name="nothing" value="yes"' in form
    assert "This is right" in form


async def test_who_only_reads_gets_json(tmp_path: Path) -> None:
    shown = {"memory": {"id": "m1", "content": "Booth"}, "earlier": [], "later": [], "related": []}
    async with browsing(Recorder({**ANSWERS, "show": shown}), with_tokens(tmp_path)) as client:
        await sign_in(client, READING_TOKEN)
        for path, json in (("/requests/r1", "/requests/r1.json"), ("/memory?id=m1", "/memory.json?id=m1")):
            page = (await client.get(path)).text
            assert f'href="{json}' in page
            assert "/requests/label" not in page


async def test_what_the_model_was_asked_is_shown_escaped() -> None:
    asked = [
        {"prompt": "[user]\n<b>1</b> Booth booked", "answer": "<script>1</script>"},
        {"prompt": "more", "answer": ""},
    ]
    async with browsing(Recorder({**ANSWERS, "receipt": {**RECEIPT, "exchanges": asked}})) as client:
        page = (await client.get("/requests/r1")).text
        shown = (await client.get("/requests/r1.json")).json()
    assert "&lt;b&gt;1&lt;/b&gt; Booth booked" in page
    assert "&lt;script&gt;1&lt;/script&gt;" in page
    assert "call 2, and its answer" in page
    assert shown["exchanges"] == asked
