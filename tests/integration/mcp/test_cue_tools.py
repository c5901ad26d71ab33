"""A host's own agent writes cues in a batch, for its own memories only."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.support.mcp import call, client_of, open_store
from worker.mcp import Backend, ToolScope
from worker.operations.registry import PUT, SHOW

CUES: list[list[str]] = [[], [], [], [], ["paint the last barge"]]
OSCAR, MIA = ToolScope("acme", user="oscar"), ToolScope("acme", user="mia")


@pytest.fixture
async def backend(tmp_path: Path) -> AsyncIterator[Backend]:
    async with open_store(tmp_path, MEESEEKS_EMBEDDER="none") as backend:
        memories = [
            {"id": f"o{number}", "content": f"Barge {number} is blue", "scope": {"user": "oscar"}}
            for number in range(5)
        ]
        memories[3]["cues"] = [{"text": "oil the third barge", "origin": "learned", "user": "oscar"}]
        memories[4]["cues"] = ["paint the last barge"]
        mias = {"id": "mia", "content": "Mia rows at dawn", "scope": {"user": "mia"}}
        await backend.call(PUT, {"tenant": "acme", "memories": [*memories, mias]})
        yield backend


async def cues_of(backend: Backend, key: str) -> list[str]:
    shown = await backend.call(SHOW, {"tenant": "acme", "id": key})
    return [cue["text"] for cue in shown["memory"].get("cues", [])]


async def test_own_memories_without_cues_are_listed_until_all_have_some(backend: Backend) -> None:
    async with client_of(backend, OSCAR) as client:
        listed = await call(client, "list_without_cues", limit=3)
        assert listed["more"] is True
        first = [memory["id"] for memory in listed["memories"]]
        added = await call(
            client, "add_cues", memories=[{"id": key, "cues": [f"which colour has {key}?", "hello"]} for key in first]
        )
        assert added == {"added": first, "unchanged": [], "not_found": []}
        rest = await call(client, "list_without_cues")
        assert {memory["id"] for memory in rest["memories"]} == {"o0", "o1", "o2", "o3"} - set(first)
        assert rest["more"] is False
        await call(client, "add_cues", memories=[{"id": one["id"], "cues": ["repaint it"]} for one in rest["memories"]])
        assert (await call(client, "list_without_cues"))["memories"] == []
    assert f"which colour has {first[0]}?" in await cues_of(backend, first[0])
    assert "hello" not in await cues_of(backend, first[0])


async def test_nobody_writes_cues_for_somebody_else_s_memories(backend: Backend) -> None:
    async with client_of(backend, OSCAR) as client:
        done = await call(client, "add_cues", memories=[{"id": key, "cues": ["row"]} for key in ("mia", "o1")])
        assert (done["added"], done["not_found"]) == (["o1"], ["mia"])
    async with client_of(backend, MIA) as client:
        listed = await call(client, "list_without_cues")
        assert [memory["id"] for memory in listed["memories"]] == ["mia"]
    assert await cues_of(backend, "mia") == []
