"""The page of proposals: what was said, what would be written, and both decisions."""

from typing import Any

from tests.support.console import PROPOSAL, browsing, post
from tests.support.http import Recorder
from worker.domain.errors import NotFound

ANSWERS: dict[str, Any] = {
    "proposals": {"proposals": [PROPOSAL]},
    "upkeep_show": NotFound("there was no upkeep yet"),
    "proposal_accept": {"id": "m", "stored": "created"},
    "proposal_reject": {"rejected": "p1"},
}


async def test_a_proposal_stands_beside_its_words() -> None:
    async with browsing(Recorder(ANSWERS)) as client:
        page = (await client.get("/review")).text
    assert "&lt;b&gt;so&lt;/b&gt;" in page
    assert 'replaces <a href="/memory?id=m">' in page
    assert '<a href="/memory?id=m2">' in page
    assert "of hana" in page


async def test_it_is_kept_in_other_words_or_rejected() -> None:
    recorder = Recorder(ANSWERS)
    async with browsing(recorder) as client:
        kept = await post(client, "/review/accept", "/review", id="p1", text="in other words")
        rejected = await post(client, "/review/reject", "/review", id="p1")
    assert (kept.status_code, kept.headers["location"], rejected.status_code) == (303, "/review", 303)
    asked = [(name, payload) for name, payload in recorder.asked if name.startswith("proposal_")]
    assert asked == [
        ("proposal_accept", {"id": "p1", "text": "in other words", "tenant": "default"}),
        ("proposal_reject", {"id": "p1", "tenant": "default"}),
    ]


async def test_without_proposals_it_says_how_to_get_some() -> None:
    async with browsing(Recorder({**ANSWERS, "proposals": {"proposals": []}})) as client:
        page = (await client.get("/review")).text
    assert "meeseeks settings set capture review" in page


def run_of(**fields: Any) -> dict[str, Any]:
    steps = [
        {"kind": "merge", "memory": "m1", "others": ["m2"], "state": "done"},
        {"kind": "close", "memory": "m3", "until": "2026-03-01T00:00:00Z", "state": "done"},
    ]
    unused = [{"id": "m4", "injected": 9}]
    given = {"id": "u1", "at": "2026-03-04T09:12:00Z", "state": "done", "apply": True, "steps": steps, "unused": unused}
    return {"run": {**given, **fields}, "texts": {"m1": "<i>one</i>", "m2": "two"}}


async def test_the_report_of_upkeep_is_shown_started_and_undone() -> None:
    answers = {**ANSWERS, "upkeep_show": run_of(), "upkeep": run_of(state="running"), "upkeep_undo": run_of()["run"]}
    recorder = Recorder(answers)
    async with browsing(recorder) as client:
        page = (await client.get("/review")).text
        started = await post(client, "/review/upkeep", "/review", apply="true")
        undone = await post(client, "/review/upkeep/undo", "/review", id="u1")
    assert "&lt;i&gt;one&lt;/i&gt;" in page
    assert '<a href="/memory?id=m4">m4</a>, given 9 times' in page
    assert (started.status_code, undone.status_code) == (303, 303)
    asked = [one for one in recorder.asked if one[0] in ("upkeep", "upkeep_undo")]
    assert asked == [
        ("upkeep", {"apply": True, "tenant": "default"}),
        ("upkeep_undo", {"id": "u1", "tenant": "default"}),
    ]


async def test_both_texts_of_a_changed_value_are_shown() -> None:
    change = {**PROPOSAL["change"], "known": True, "conflicts": []}
    proposal = {**PROPOSAL, "change": change, "replaces": "the <old> text"}
    async with browsing(Recorder({**ANSWERS, "proposals": {"proposals": [proposal]}})) as client:
        page = (await client.get("/review")).text
    assert "the &lt;old&gt; text" in page
    assert "blockquote" not in page
