"""The page on which messages and prompts are tried: whose they are, who may ask a model, and what becomes of edits."""

import re
from pathlib import Path
from typing import Any

import httpx
import pytest

from hooks.contract import Reason
from tests.support.console import ACME_TOKEN, READING_TOKEN, browsing, post, sign_in, with_tokens
from tests.support.http import Recorder
from worker.domain.errors import OperationError

SHIPPED, OWN = "---\nid: triage\nversion: 2\n---\n# System\nChoose.", "---\nid: quay\nversion: 1\n---\n# System\nAsk."
HTMX = {"HX-Request": "true"}
MESSAGE = "When do holds lapse?"


def considered(key: str, verdict: str, probability: float | None = None) -> dict[str, Any]:
    return {
        "id": key,
        "type": "fact",
        "text": f"<b>{key}</b>",
        "version": 1,
        "score": 1.0,
        "verdict": verdict,
        "cosine": 0.61,
        "legs": ["message"],
        "probability": probability,
    }


def trial(way: str, chosen: str, left: str, **fields: Any) -> dict[str, Any]:
    receipt = {
        "id": way,
        "at": "2026-01-01T00:00:00Z",
        "outcome": "injected",
        "engine": "judge",
        "required": 0.44,
        "request": {"session_id": "s", "message": MESSAGE},
        "chosen": [chosen],
        "block": f"<memory>{chosen}",
        "considered": [considered(chosen, "chosen", 0.71), considered(left, "below_cut", 0.2)],
    }
    return {"way": way, "limit_ms": 3000, "receipt": {**receipt, **fields}}


def tried(payload: dict[str, Any]) -> dict[str, Any]:
    trials = [trial("search", "a", "b"), trial("relevance", "b", "a")]
    if payload.get("model"):
        trials.append(trial("model", "b", "a", elapsed_ms=4200.0))
    if payload.get("prompt"):
        trials.append(trial("prompt", "a", "b"))
    return {"trials": trials}


def prompt(payload: dict[str, Any]) -> dict[str, Any]:
    text = OWN if payload["agent_id"] == "quay" and not payload["shipped"] else SHIPPED
    return {"name": "a@1", "text": text, "model": "openai/small"}


def recorder(**answers: Any) -> Recorder:
    return Recorder({"try": tried, "prompt": prompt, **answers})


def asked(seen: Recorder) -> list[dict[str, Any]]:
    return [payload for name, payload in seen.asked if name == "try"]


def begun(page: str) -> str:
    found = re.search(r'name="begun" value="([0-9a-f]+)"', page)
    assert found, page
    return found[1]


async def live(client: httpx.AsyncClient, path: str = "/playground", **fields: Any) -> httpx.Response:
    """Send the form as htmx does."""
    client.headers.update(HTMX)
    try:
        return await post(client, path, **fields)
    finally:
        del client.headers["HX-Request"]


async def test_ways_of_choosing_stand_side_by_side() -> None:
    async with browsing(seen := recorder()) as client:
        empty = await client.get("/playground")
        part = await live(client, message=MESSAGE, agent="quay", user="mia")
        data = (await client.get(f"/playground.json?message={MESSAGE}")).json()
    assert "appears here as you type" in empty.text
    assert "<html" not in part.text
    assert "They differ in 2 memories" in part.text
    assert "given; probability 0.71, needs 0.44" in part.text
    assert "not relevant enough; probability 0.20, needs 0.44" in part.text
    assert "&lt;b&gt;a&lt;/b&gt;" in part.text
    first = asked(seen)[0]
    assert (first["agent_id"], first["user"], first["project"], first["tenant"]) == ("quay", "mia", None, "default")
    assert [[fate["given"] for fate in row["fates"]] for row in data["tried"]["memories"]] == [
        [True, False],
        [False, True],
    ]


async def test_only_an_edited_prompt_is_asked_with() -> None:
    async with browsing(seen := recorder()) as client:
        mark = begun((await client.get("/playground")).text)
        fields = {"message": MESSAGE, "begun": mark}
        await post(client, "/playground/model", prompt=SHIPPED.replace("\n", "\r\n"), **fields)
        page = await post(client, "/playground/model", prompt=SHIPPED + " Well.", **fields)
    assert [one.get("prompt") for one in asked(seen)] == [None, SHIPPED + " Well."]
    assert all(one.get("model") for one in asked(seen))
    assert "With the edited prompt: 1 memory" in page.text
    assert "Too slow for this agent" in page.text
    assert "Choose. Well." in page.text, "what was edited stays in its field"


async def test_the_prompt_changes_with_the_agent_until_it_is_edited() -> None:
    async with browsing(recorder()) as client:
        mark = begun((await client.get("/playground")).text)
        moved = await live(client, agent="quay", prompt=SHIPPED, begun=mark)
        kept = await live(client, agent="quay", prompt=SHIPPED + " Well.", begun=mark)
        same = await live(client, agent="other", prompt=SHIPPED, begun=mark)
    assert 'hx-swap-oob="true"' in moved.text
    assert "id: quay" in moved.text
    assert all("prompt-area" not in one.text for one in (kept, same))


async def test_a_refused_prompt_is_explained_and_kept() -> None:
    refused = OperationError(Reason.BAD_REQUEST, "the prompt: needs the sections '# System' and '# User'")
    async with browsing(recorder(**{"try": refused})) as client:
        page = await post(client, "/playground/model", message=MESSAGE, prompt="my own words", begun="x")
    assert page.status_code == 422
    assert "needs the sections" in page.text
    assert "my own words" in page.text


async def test_a_model_is_not_asked_about_nothing() -> None:
    async with browsing(seen := recorder()) as client:
        page = await post(client, "/playground/model", message="  ")
    assert (page.status_code, asked(seen)) == (422, [])


async def test_a_prompt_is_saved_as_a_file() -> None:
    async with browsing(seen := recorder()) as client:
        file = await post(client, "/playground/prompt", prompt=OWN.replace("\n", "\r\n"))
    assert file.text == OWN + "\n"
    assert file.headers["content-disposition"] == 'attachment; filename="quay-draft.md"'
    assert [name for name, _ in seen.asked if name not in ("try", "prompt", "export", "health")] == []


async def test_a_visitor_of_a_tenant_gets_its_memories_and_no_prompt_of_the_operator(tmp_path: Path) -> None:
    async with browsing(seen := recorder(), with_tokens(tmp_path)) as client:
        await sign_in(client, ACME_TOKEN)
        page = await client.get(f"/playground?message={MESSAGE}&agent=quay&tenant=other")
        await post(client, "/playground/model", "/playground", message=MESSAGE, tenant="other")
    assert {payload["tenant"] for _, payload in seen.asked} == {"acme"}
    assert "id: quay" not in page.text


@pytest.mark.parametrize(
    ("path", "status"), [("/playground", 200), ("/playground/prompt", 200), ("/playground/model", 403)]
)
async def test_who_may_only_read_tries_messages_but_asks_no_model(tmp_path: Path, path: str, status: int) -> None:
    async with browsing(seen := recorder(), with_tokens(tmp_path)) as client:
        await sign_in(client, READING_TOKEN)
        assert "cannot ask a model" in (await client.get("/playground")).text
        assert (await post(client, path, "/playground", message=MESSAGE, prompt=OWN)).status_code == status
    assert not any(one.get("model") for one in asked(seen))


async def test_without_a_model_the_page_says_what_to_set() -> None:
    without = {"name": "triage@2", "text": SHIPPED, "model": None}
    async with browsing(recorder(prompt=without)) as client:
        page = await client.get("/playground")
    assert "No model is configured" in page.text
    assert "/playground/model" not in page.text
