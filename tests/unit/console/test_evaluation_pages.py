"""Evaluations in the console: who may start them, what the form keeps, and how results are drawn."""

from pathlib import Path
from typing import Any

import pytest

from hooks.contract import Reason
from tests.support.console import ACME_TOKEN, READING_TOKEN, TOKEN, browsing, post, sign_in, with_tokens
from tests.support.http import Recorder
from worker.console.evaluation_words import picture_of
from worker.domain.errors import OperationError
from worker.ports.evaluations import EvaluationResult

PATH = "/playground/evaluations"
SETS = [{"name": "own", "tasks": 2}, {"name": "shipped", "tasks": 214}]
ESTIMATE = {"value": 0.5, "low": 0.25, "high": 0.75}
RESULT = {
    "report": "abc",
    "prompt": "triage@2",
    "model": None,
    "runs": 2,
    "cached": 1,
    "missing": 1,
    "stopped": "spent 1 of 1 dollars",
    "measures": {"precision": ESTIMATE, "p50_ms": {"value": 12.0, "low": None, "high": None}},
    "categories": {"single": {"precision": ESTIMATE}},
    "times_ms": [float(at) for at in range(1, 102)],
}


def state(phase: str, key: str = "e1", **fields: Any) -> dict[str, Any]:
    known = {"tenant": "acme", "order": {"cases": "own"}, "began": "2026-01-01T00:00:00Z", "done": 1, "total": 4}
    return {"id": key, "phase": phase, **known, **fields}


def recorder(*states: dict[str, Any], **answers: Any) -> Recorder:
    latest = {"evaluations": states, "sets": SETS}
    usual = {"evaluations": latest, "evaluation_start": state("running"), "evaluation_stop": state("stopped")}
    return Recorder({**usual, **answers})


async def test_an_evaluation_is_started_with_what_the_form_says() -> None:
    async with browsing(seen := recorder()) as client:
        shown = await client.get(PATH)
        done = await post(client, f"{PATH}/start", PATH, cases="own", strategy="relevance", max_cost="2", prompt=" ")
    assert "own labelled cases (2 tasks)" in shown.text
    assert (done.status_code, done.headers["location"]) == (303, PATH)
    order = {"cases": "own", "strategy": "relevance", "prompt": None, "max_cost": 2.0}
    assert ("evaluation_start", {"order": order, "tenant": "default"}) in seen.asked


@pytest.mark.parametrize(
    ("fields", "answer", "words"),
    [
        ({"max_cost": "much"}, None, "max_cost"),
        ({}, OperationError(Reason.CONFLICT, "an evaluation is running; wait"), "an evaluation is running"),
    ],
)
async def test_what_is_refused_is_explained_and_the_form_kept(fields: dict[str, str], answer: Any, words: str) -> None:
    async with browsing(recorder(**({"evaluation_start": answer} if answer else {}))) as client:
        page = await post(client, f"{PATH}/start", PATH, cases="shipped", prompt="my own words", **fields)
    assert page.status_code in (412, 422)
    assert words in page.text
    assert "my own words" in page.text
    assert 'value="shipped" selected' in page.text


async def test_the_playground_hands_its_prompt_over() -> None:
    async with browsing(recorder()) as client:
        page = await post(client, PATH, PATH, prompt="my own words", begun="x")
    assert "my own words" in page.text
    assert 'value="llm" selected' in page.text


@pytest.mark.parametrize(("token", "statuses"), [(READING_TOKEN, (403, 403, 403)), (ACME_TOKEN, (403, 403, 403))])
async def test_only_who_may_change_all_tenants_starts_and_stops(
    tmp_path: Path, token: str, statuses: tuple[int, ...]
) -> None:
    """An evaluation takes the machine and the models of all tenants."""
    async with browsing(seen := recorder(state("running")), with_tokens(tmp_path)) as client:
        await sign_in(client, token)
        start = await post(client, f"{PATH}/start", "/sign-in", cases="own")
        stop = await post(client, f"{PATH}/stop", "/sign-in", id="e1")
        live = await client.get(f"{PATH}/live")
    assert (start.status_code, stop.status_code, live.status_code) == statuses
    assert not any(name.startswith("evaluation") for name, _ in seen.asked)


async def test_a_tenant_that_is_chosen_is_the_one_that_is_evaluated(tmp_path: Path) -> None:
    async with browsing(seen := recorder(state("done")), with_tokens(tmp_path)) as client:
        await sign_in(client, TOKEN)
        await client.get(f"{PATH}?tenant=acme")
        await post(client, f"{PATH}/stop", PATH, id="e1")
    assert {payload["tenant"] for _, payload in seen.asked} == {"acme"}


async def test_who_follows_is_told_how_far_it_is_and_that_it_ended() -> None:
    looks = iter([[state("running")], [state("running", done=3)], []])
    answer = lambda payload: {"evaluations": next(looks) if payload["running"] else [state("done")], "sets": []}  # noqa: E731
    async with browsing(recorder(evaluations=answer)) as client:
        told = (await client.get(f"{PATH}/live")).text
    assert told.count("event: progress") == 2
    assert "1 of 4 tasks" in told
    assert "3 of 4 tasks" in told
    assert told.endswith("event: reload\ndata: \n\n")


async def test_a_result_is_drawn_and_said() -> None:
    async with browsing(recorder(state("done", result=RESULT), state("failed", "e2", error="no model"))) as client:
        page = await client.get(f"{PATH}/e1")
        data = (await client.get(f"{PATH}/e1.json")).json()
        failed = await client.get(f"{PATH}/e2")
        missing = await client.get(f"{PATH}/nothing")
    assert "0.25 to 0.75" in page.text
    assert "1 task was not run: spent 1 of 1 dollars." in page.text
    assert page.text.count("<svg") == 2
    assert data["picture"]["categories"] == [{"name": "single", "values": ["0.50", "", "", ""]}]
    assert "no model" in failed.text
    assert missing.status_code == 404


async def test_the_page_says_which_settings_were_used() -> None:
    states = [state("done", "e1", saved=["max_items", "mode"]), state("done", "e2", saved=[]), state("done", "e3")]
    async with browsing(recorder(*states)) as client:
        pages = [(await client.get(f"{PATH}/{one['id']}")).text for one in states]
    assert "those in force for all agents, 2 of them saved: max_items, mode" in pages[0]
    assert "those of the settings file; none were saved" in pages[1]
    assert "those of the settings file only" in pages[2]


def result(precision: float, **faults: float) -> dict[str, Any]:
    cases = {f"own/{name.replace('receipt_', 'receipt-')}": count for name, count in faults.items()}
    measures = {"precision": {**ESTIMATE, "value": precision}}
    return {**RESULT, "measures": measures, "faults": cases, "worlds": {"own": "h1"}}


async def test_two_evaluations_are_compared_the_older_one_first() -> None:
    old = state("done", "e1", result=result(0.5, a=0, receipt_r1=1, c=2, d=1))
    new = state("done", "e2", began="2026-01-02T00:00:00Z", result=result(0.75, a=1, receipt_r1=0, c=1, d=1))
    async with browsing(recorder(new, old, state("failed", "e3"))) as client:
        page = (await client.get(f"{PATH}/compare?id=e2&id=e1")).text
        shown = (await client.get(f"{PATH}/compare.json?id=e1&id=e2")).json()
        alone = await client.get(f"{PATH}/compare?id=e1")
        failed = await client.get(f"{PATH}/compare?id=e1&id=e3")
        listed = (await client.get(PATH)).text
    assert shown["rows"] == [
        {"name": shown["rows"][0]["name"], "before": "0.50", "after": "0.75", "difference": "+0.25"}
    ]
    assert [one["name"] for one in shown["became_wrong"]] == ["own/a"]
    assert [(one["name"], one["request"]) for one in shown["became_right"]] == [("own/receipt-r1", "r1")]
    assert [(one["before"], one["after"]) for one in shown["changed"]] == [("2", "1")]
    assert (shown["cases"], shown["warnings"]) == (4, [])
    assert 'href="/requests/r1"' in page
    assert (alone.status_code, failed.status_code) == (422, 422)
    assert "Tick two evaluations" in alone.text
    assert listed.count('type="checkbox" name="id"') == 2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"faults": {}}, "an earlier version"),
        ({"faults": {"other/a": 0.0}}, "no case in common"),
        ({"faults": {"own/a": 0.0, "own/b": 0.0}}, "not all cases in common"),
        ({"worlds": {"own": "h2"}}, "The cases of own were edited"),
    ],
)
async def test_what_cannot_be_compared_is_said(changes: dict[str, Any], words: str) -> None:
    one, other = (
        state("done", "e1", result=result(0.5, a=0)),
        state("done", "e2", result={**result(0.5, a=0), **changes}),
    )
    async with browsing(recorder(one, other)) as client:
        (warning,) = (await client.get(f"{PATH}/compare.json?id=e1&id=e2")).json()["warnings"]
    assert words in warning


def test_pictures_stay_within_their_frames() -> None:
    picture = picture_of(EvaluationResult.model_validate(RESULT))
    assert [(one.low, one.at, one.high) for one in picture.whiskers] == [(250, 500, 750)]
    assert picture.curve is not None
    points = [tuple(map(float, point.split(","))) for point in picture.curve.points.split()]
    assert all(0 <= x <= 1000 and 0 <= y <= 180 for x, y in points)
    assert (picture.curve.half_ms, picture.curve.late_ms) == (51, 96)
    assert picture_of(EvaluationResult.model_validate({**RESULT, "times_ms": []})).curve is None
