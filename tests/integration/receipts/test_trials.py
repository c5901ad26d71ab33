"""Trials of messages on a whole service: what each way of choosing gives, to whom, and that they leave no trace."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from hooks.queue import connect
from tests.support.upstream import Upstream, keeping
from tests.support.valkey import forget, running_valkey
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.bootstrap.core import open_core
from worker.domain.errors import OperationError
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import INJECT, PROMPT, RECEIPT_PAGE, REMEMBER, SHOW, TRY
from worker.settings.injection import Settings

HOLD = "Cabin holds in berth lapse after 12 minutes"
QUESTION = "When do cabin holds in berth lapse?"
OTHERWISE = "---\nid: triage\nversion: 9\nextends: triage\n---\n# System\nYou choose notes for a harbour master.\n"
MIA = {"id": "mia", "content": "Mia holds a cabin in berth 7", "scope": {"user": "mia"}}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@asynccontextmanager
async def served(
    folder: Path, redis: "Redis | None" = None, **variables: str
) -> AsyncIterator[tuple[Upstream, OperationClient]]:
    """A service with a chat model that chooses what names a cabin, and with two memories."""
    async with Upstream(respond=keeping(["Cabin"])) as upstream:
        said = {
            "MEESEEKS_MODEL": "openai/scripted",
            "MEESEEKS_MODEL_API_BASE": f"{upstream.url}/v1",
            "MEESEEKS_MODEL_API_KEY": "k",
        }
        settings = Settings.load({**said, **variables}, None, data_dir=folder / "data")
        async with open_core(settings, redis=redis) as core:
            backend = LocalOperationClient(core.operations)
            for memory in ({"id": "hold", "content": HOLD}, MIA):
                await backend.call(REMEMBER, {"memory": memory})
            yield upstream, backend


async def tried(backend: OperationClient, **fields: Any) -> dict[str, dict[str, Any]]:
    found = await backend.call(TRY, {"message": QUESTION, **fields}, budget=60.0)
    return {one["way"]: one["receipt"] for one in found["trials"]}


def asked(upstream: Upstream) -> list[list[dict[str, Any]]]:
    """Return the messages of each question, without what warms the model up."""
    every = [chat.body["messages"] for chat in upstream.chats]
    return [messages for messages in every if len(messages) > 1]


async def everything(redis: Redis, folder: Path) -> dict[Any, Any]:
    """Return what Redis and the data folder hold, of files a digest: those of the store are hundreds of megabytes."""
    files = {path: sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}
    return files | {key: await redis.dump(key) async for key in redis.scan_iter()}


async def test_a_trial_leaves_no_trace(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a receipt nor a ledger entry, nor a cue; a request leaves all of them."""
    open_store = EdgeStore.open.__func__  # type: ignore[attr-defined]
    monkeypatch.setitem(open_store.__kwdefaults__, "flush_every", 3600.0)  # what was written before stays as it is
    redis = connect(url)
    async with served(tmp_path, redis) as (upstream, backend):
        before = await everything(redis, tmp_path / "data")
        found = await tried(backend, model=True, prompt=OTHERWISE, message="When do holds in berth lapse, really?")
        assert await everything(redis, tmp_path / "data") == before
        assert all(receipt["chosen"] == ["hold"] for way, receipt in found.items() if way in ("model", "prompt"))
        assert len(asked(upstream)) == 2
        request = {"session_id": "s", "message": QUESTION, "mode": "always", "deadline_ms": 20_000}
        await backend.call(INJECT, request, budget=20.0)
        cues: list[dict[str, Any]] = []
        until = time.monotonic() + 20
        while not cues and time.monotonic() < until:
            await asyncio.sleep(0.05)
            cues = (await backend.call(SHOW, {"id": "hold"}))["memory"].get("cues", [])
        assert [cue["text"] for cue in cues] == [QUESTION]
        assert len((await backend.call(RECEIPT_PAGE, {}))["summaries"]) == 1
        assert await everything(redis, tmp_path / "data") != before
    await redis.aclose()
    forget(url)


async def test_ways_of_choosing_are_tried_with_the_prompt_in_force_and_another(tmp_path: Path) -> None:
    async with served(tmp_path) as (upstream, backend):
        free = await tried(backend)
        assert {way: receipt["engine"] for way, receipt in free.items()} == {
            "search": "deterministic",
            "relevance": "judge",
        }
        assert not asked(upstream), "a model is asked on demand only"
        found = await tried(backend, model=True, prompt=OTHERWISE)
        assert list(found) == ["search", "relevance", "model", "prompt"]
        assert [found[way]["model"]["prompt_id"] for way in ("model", "prompt")] == ["triage@2", "triage@9"]
        systems = {messages[0]["content"] for messages in asked(upstream)}
        assert "You choose notes for a harbour master." in systems
        with pytest.raises(OperationError, match="not a prompt that selects memories"):
            await tried(backend, model=True, prompt="no prompt")


async def test_a_trial_sees_what_its_user_may_see(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, backend):
        for fields, seen in (({}, {"hold"}), ({"user": "mia"}, {"hold", "mia"}), ({"tenant": "acme"}, set())):
            found = await tried(backend, **fields)
            assert {one["id"] for receipt in found.values() for one in receipt["considered"]} == seen


async def test_a_prompt_begins_with_the_one_in_force(tmp_path: Path) -> None:
    """It reads the same when it is tried; the shipped one is another."""
    folder = tmp_path / "prompts"
    folder.mkdir()
    (folder / "triage.md").write_text(OTHERWISE, encoding="utf-8")
    async with served(tmp_path, MEESEEKS_PROMPTS_DIR=str(folder)) as (upstream, backend):
        known = await backend.call(PROMPT, {})
        assert (known["name"], known["model"]) == ("triage@9", "openai/scripted")
        assert (await backend.call(PROMPT, {"shipped": True}))["name"] == "triage@2"
        await tried(backend, model=True, prompt=known["text"])
        first, second = asked(upstream)
        assert first == second


async def test_without_a_model_nobody_is_asked(tmp_path: Path) -> None:
    async with served(tmp_path, MEESEEKS_MODEL="none") as (_, backend):
        assert (await backend.call(PROMPT, {}))["model"] is None
        with pytest.raises(OperationError, match="no model is configured"):
            await tried(backend, model=True)
