"""Requests that were, over HTTP and through a real worker: listed, run again, labelled, and what their answers used."""

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from hooks import MeeseeksClient, SyncMeeseeksClient
from hooks.contract.usage import AnswerReportResult
from tests.support.stack import DEPLOYMENT, FACTS, HTTP, MIGRATION, Stack, fact, put, running_stack
from worker.receipts.case_models import LabelledCase
from worker.receipts.cases import add_to_file
from worker.tuning.labelled_worlds import read_cases

ACME = {"tenant": "acme"}
ANSWER = "It goes out on Tuesday after the stand-up."


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with running_stack(
        tmp_path_factory.mktemp("http-receipts"), "up", "--model", "none", **HTTP, MEESEEKS_HTTP_RATE_LIMIT="0"
    ) as stack:
        asyncio.run(put(stack.url, FACTS))
        yield stack
        assert MIGRATION not in stack.log
        assert ANSWER not in stack.log


@pytest.fixture
async def client(stack: Stack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=stack.http, timeout=60) as client:
        yield client


async def injected(client: httpx.AsyncClient, message: str = MIGRATION) -> dict[str, Any]:
    """The result of a request, in a session of its own, whose receipt is written."""
    session = uuid.uuid4().hex
    said = {"session_id": session, "message": message, "scope": ACME, "mode": "deterministic"}
    result = (await client.post("/v1/inject", json={**said, "deadline_ms": 10_000})).json()
    assert result["outcome"] == "injected", result
    for _ in range(200):
        if (await client.get(f"/v1/receipts/{result['receipt_id']}", params=ACME)).status_code == 200:
            return {**result, "session_id": session}
        await asyncio.sleep(0.05)
    raise AssertionError("the receipt was not written")


async def test_receipts_are_found_run_again_and_labelled(client: httpx.AsyncClient, tmp_path: Any) -> None:
    result = await injected(client)
    key, day = result["receipt_id"], time.strftime("%Y-%m-%d", time.gmtime())
    wanted = {**ACME, "session_id": result["session_id"], "outcome": "injected", "since": day, "brief": True}
    listed = (await client.get("/v1/receipts", params={**wanted, "until": "2999-01-01"})).json()["receipts"]
    assert [(one["id"], one["considered"] > 0) for one in listed] == [(key, True)]
    assert (await client.get("/v1/receipts", params={**wanted, "until": "2001-01-01"})).json() == {"receipts": []}

    same = (await client.post(f"/v1/receipts/{key}/replay", json=ACME)).json()
    assert (same["same"], same["after"]["chosen"]) == (True, [item["id"] for item in result["items"]])
    off = (await client.post(f"/v1/receipts/{key}/replay", json={**ACME, "mode": "off"})).json()
    assert off["after"]["outcome"] == "skipped"
    wrong = await client.post(f"/v1/receipts/{key}/replay", json={**ACME, "settings": {"max_itemz": 1}})
    assert (wrong.status_code, "max_items" in wrong.json()["detail"]) == (422, True)
    prompt = await client.post(f"/v1/receipts/{key}/replay", json={**ACME, "prompt": "no prompt"})
    assert (prompt.status_code, "front matter" in prompt.json()["detail"]) == (422, True)
    elsewhere = await client.post(f"/v1/receipts/{key}/replay", json={"tenant": "other"})
    assert elsewhere.status_code == 404

    where = {"session_id": result["session_id"]}
    summary = (await client.post("/v1/replays", json={**ACME, "where": where, "changes": {"mode": "off"}})).json()
    assert (summary["replayed"], summary["failed"], summary["with_memory_after"]) == (1, 0, 0)

    case = (await client.post(f"/v1/receipts/{key}/label", json={**ACME, "accept": True})).json()
    add_to_file(tmp_path / "cases.jsonl", LabelledCase.model_validate(case))
    (task,) = read_cases(tmp_path / "cases.jsonl").tasks
    assert task.essential == set(same["after"]["chosen"])
    ghost = await client.post(f"/v1/receipts/{key}/label", json={**ACME, "essential": ["ghost"]})
    assert (ghost.status_code, "not considered" in ghost.json()["detail"]) == (422, True)


async def reported(stack: Stack, **fields: Any) -> AnswerReportResult:
    async with MeeseeksClient(stack.http, timeout=20) as client:
        return await client.report(tenant="acme", answer=ANSWER, deadline_ms=20_000, **fields)


async def test_answers_are_counted_once_whoever_reports_them(stack: Stack, client: httpx.AsyncClient) -> None:
    result = await injected(client, DEPLOYMENT)
    turn = {"session_id": result["session_id"], "turn_id": result["turn_id"]}
    told = await reported(stack, **turn)
    assert (told.done, told.used, told.counted) == (True, ("tuesday",), True), told
    with SyncMeeseeksClient(stack.http, timeout=20) as plain:
        again = await asyncio.to_thread(plain.report, {**turn, "tenant": "acme", "answer": "x", "deadline_ms": 20_000})
    assert (again.done, again.counted) == (True, False)
    unknown = await reported(stack, session_id="nobody", turn_id="1")
    assert (unknown.done, unknown.reason) == (False, "not_found")
    usage = (await client.get("/v1/usage", params=ACME)).json()
    (row,) = [one for one in usage["memories"] if one["id"] == "tuesday"]
    assert row["used"] >= 1
    never = (await client.get("/v1/usage", params={**ACME, "never_used": True})).json()["memories"]
    assert "tuesday" not in [one["id"] for one in never]


@pytest.mark.parametrize("name", ["export", "import", "..", "a/b c"])
async def test_a_memory_of_any_id_is_reached(stack: Stack, client: httpx.AsyncClient, name: str) -> None:
    await put(stack.url, [fact(name, "Barges are counted by hand"), fact("other", "Barges are counted at night")])
    where = {**ACME, "id": name}
    assert (await client.get("/v1/memory", params=where)).json()["memory"]["id"] == name
    changed = await client.patch("/v1/memory", params={"id": name}, json={**ACME, "changes": {"importance": 0.9}})
    assert changed.json()["memory"]["importance"] == 0.9
    relation = {**ACME, "kind": "about", "target": "other"}
    related = await client.post("/v1/memory/relations", params={"id": name}, json=relation)
    assert related.json()["memory"]["relations"] == [{"kind": "about", "target": "other"}]
    async with MeeseeksClient(stack.http, timeout=20) as caller:
        assert (await caller.forget(name, tenant="acme")).forgotten == 1
    assert (await client.delete("/v1/memory", params=where)).status_code == 404
