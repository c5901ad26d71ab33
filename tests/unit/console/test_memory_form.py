"""The form of a memory changes what was edited in it, and nothing else."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import httpx

from tests.support.console import browsing, token_in
from tests.support.http import Recorder

LEARNED = {"text": "is the booth free", "origin": "learned", "user": "hana"}
WRITTEN = {"text": "who books the booth", "origin": "model", "prompt": "p1"}
BOOTH: dict[str, Any] = {
    "id": "m",
    "content": "The booth is booked\r\nby Hana",
    "importance": 0.7,
    "scope": {"user": "hana", "project": "hall"},
    "entities": ["Hana", "booth"],
    "cues": [{"text": "booth"}, LEARNED, WRITTEN],
}


class Stored:
    """A memory, and the changes that were made of it."""

    def __init__(self) -> None:
        self.memory = dict(BOOTH)
        self.changes: list[dict[str, Any]] = []

    @asynccontextmanager
    async def browsing(self) -> AsyncIterator[httpx.AsyncClient]:
        def show(_: Any) -> dict[str, Any]:
            return {"memory": self.memory, "earlier": [], "later": [], "related": []}

        def update(payload: dict[str, Any]) -> dict[str, Any]:
            self.changes.append(payload["changes"])
            return {"memory": self.memory}

        async with browsing(Recorder({"show": show, "update": update})) as client:
            yield client


def fields_of(page: str) -> dict[str, str]:
    """Return what a browser would send of the page's form."""
    form = page.partition('action="/memory/save"')[2].partition("</form>")[0]
    inputs = re.findall(r'<input[^>]* name="([^"]+)"[^>]*? value="([^"]*)"', form)
    areas = re.findall(r'<textarea[^>]* name="([^"]+)"[^>]*>([^<]*)</textarea>', form)
    chosen = re.findall(r'<select[^>]* name="([^"]+)".*?<option value="([^"]+)" selected>', form, re.DOTALL)
    sent = {
        name: unescape(value).replace("\r\n", "\n").replace("\n", "\r\n") for name, value in inputs + areas + chosen
    }
    return {**sent, "csrf": token_in(page)}


async def edit(client: httpx.AsyncClient, **typed: str) -> httpx.Response:
    page = (await client.get("/memory/edit?id=m")).text
    return await client.post("/memory/save", data={**fields_of(page), **typed})


async def test_what_is_not_edited_is_not_sent() -> None:
    stored = Stored()
    async with stored.browsing() as client:
        assert (await edit(client)).headers["location"] == "/memory?id=m"
        assert stored.changes == []
        await edit(client, importance="0.9")
        await edit(client, agent="planner")
    assert stored.changes == [
        {"importance": 0.9},
        {"scope": {"user": "hana", "agent": "planner", "project": "hall"}},
    ]


async def test_changes_made_meanwhile_are_kept() -> None:
    stored = Stored()
    async with stored.browsing() as client:
        form = fields_of((await client.get("/memory/edit?id=m")).text)
        stored.memory |= {"importance": 0.1, "cues": [*BOOTH["cues"], {"text": "new", "origin": "model"}]}
        assert (await client.post("/memory/save", data={**form, "type": "goal"})).status_code == 303
        await client.post("/memory/save", data={**form, "cues": form["cues"] + "\r\nbooth at noon"})
    assert stored.changes[0] == {"type": "goal"}
    assert [cue if isinstance(cue, str) else cue["text"] for cue in stored.changes[1]["cues"]] == [
        "booth",
        "is the booth free",
        "who books the booth",
        "new",
        "booth at noon",
    ]


async def test_cues_keep_their_origin() -> None:
    stored = Stored()
    async with stored.browsing() as client:
        await edit(client, cues="booth at noon\r\nis the booth free")
        await edit(client, content="The booth is booked by Tyler")
    kept = [stored.changes[0]["cues"], stored.changes[1]["cues"]]
    assert {key: value for key, value in kept[0][0].items() if value} == LEARNED
    assert kept[0][1:] == ["booth at noon"]
    assert [one["origin"] for one in kept[1]] == ["given", "learned", "model"], "a new text would drop them"


async def test_two_who_edit_the_same_field_do_not_overwrite_each_other() -> None:
    stored = Stored()
    async with stored.browsing() as client:
        form = fields_of((await client.get("/memory/edit?id=m")).text)
        stored.memory["content"] = "The booth is booked by Oscar"
        refused = await client.post("/memory/save", data={**form, "content": "The booth is free"})
        assert refused.status_code == 412
        assert "Somebody else has changed this memory" in refused.text
        assert "The booth is booked by Oscar" in refused.text
        assert stored.changes == []
        again = fields_of(refused.text)
        assert again["content"] == "The booth is free"
        assert (await client.post("/memory/save", data=again)).status_code == 303
    assert stored.changes[0]["content"] == "The booth is free"


async def test_what_is_wrong_is_said_and_nothing_is_lost() -> None:
    stored = Stored()
    async with stored.browsing() as client:
        refused = await edit(client, importance="much")
        assert refused.status_code == 422
        assert "write a number from 0 to 1" in refused.text
        assert fields_of(refused.text)["importance"] == "much"
        await client.post("/memory/save", data={**fields_of(refused.text), "importance": "1"})
    assert stored.changes == [{"importance": 1.0}]


async def test_a_memory_is_pinned_and_unpinned_on_its_page() -> None:
    stored = Stored()
    async with stored.browsing() as client:
        page = (await client.get("/memory?id=m")).text
        assert ">Pin</button>" in page
        assert ">pinned</span>" not in page
        form = {"csrf": token_in(page), "id": "m"}
        assert (await client.post("/memory/pin", data={"id": "m", "pinned": "yes"})).status_code == 403
        assert (await client.post("/memory/pin", data={**form, "pinned": "perhaps"})).status_code == 422
        assert (await client.post("/memory/pin", data={**form, "pinned": "yes"})).headers["location"] == "/memory?id=m"
        stored.memory["pinned"] = True
        page = (await client.get("/memory?id=m")).text
        assert ">Unpin</button>" in page
        assert ">pinned</span>" in page
        await client.post("/memory/pin", data={**form, "pinned": "no"})
    assert stored.changes == [{"pinned": True}, {"pinned": False}]
