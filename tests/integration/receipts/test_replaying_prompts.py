"""Replays with another prompt, an agent's own included: which place it takes, and whether the choice was made by it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.support.command_line import command_line
from tests.support.paths import ROOT
from tests.support.upstream import Upstream, keeping
from worker.bootstrap.core import open_core
from worker.domain.errors import OperationError
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import INJECT, RECEIPTS, REMEMBER, REPLAY
from worker.settings.injection import Settings

HOLD = "Cabin holds in berth lapse after 12 minutes"
QUESTION = "When do cabin holds in berth lapse?"
OWN = """---
id: harbour
version: 3
extends: triage
---
# System
You choose notes for a harbour master.
"""
BASED = OWN.replace("extends: triage", "extends: quay")


@asynccontextmanager
async def served(folder: Path, **variables: str) -> AsyncIterator[tuple[Upstream, OperationClient, str]]:
    """A service with a scripted chat model, and the receipt of one request that was answered by it."""
    async with Upstream(respond=keeping(["Cabin"])) as upstream:
        said = {
            "MEESEEKS_MODEL": "openai/scripted",
            "MEESEEKS_MODEL_API_BASE": f"{upstream.url}/v1",
            "MEESEEKS_MODEL_API_KEY": "k",
        }
        settings = Settings.load({**said, **variables}, None, data_dir=folder / "data")
        async with open_core(settings) as core:
            assert core.model is not None
            await core.model.chat.open("openai/scripted")
            backend = LocalOperationClient(core.operations)
            await backend.call(REMEMBER, {"memory": {"id": "hold", "content": HOLD}})
            request = {"session_id": "s", "message": QUESTION, "deadline_ms": 20_000, "mode": "always"}
            receipt = (await backend.call(INJECT, request, budget=20.0))["receipt_id"]
            for _ in range(200):  # it is written after the answer
                if (await backend.call(RECEIPTS, {"brief": True}))["receipts"]:
                    break
                await asyncio.sleep(0.05)
            yield upstream, backend, receipt


async def replayed(backend: OperationClient, receipt: str, **changes: Any) -> dict[str, Any]:
    wanted = {"id": receipt, "changes": {"deadline_ms": 20_000, **changes}}
    found: dict[str, Any] = await backend.call(REPLAY, wanted, budget=25.0)
    return found


async def test_an_agents_own_prompt_is_asked_and_says_whose_place_it_takes(tmp_path: Path) -> None:
    async with served(tmp_path) as (upstream, backend, receipt):
        before = len(upstream.chats)
        found = await replayed(backend, receipt, prompt=OWN, mode="always", settings={"strategy": "llm"})
        (chat,) = upstream.chats[before:]
        usual = await replayed(backend, receipt, mode="always", settings={"strategy": "llm"})
    assert chat.body["messages"][0]["content"] == "You choose notes for a harbour master."
    assert len(chat.body["messages"]) > 2, "what it does not say is the other one's"
    assert found["tried"] == {"prompt": "harbour@3", "strategy": "llm", "replaces": "triage", "used": True}
    assert (found["after"]["prompt"], found["after"]["chosen"]) == ("harbour@3", ["hold"])
    assert usual["tried"] is None
    assert usual["after"]["prompt"].startswith("triage@")


async def test_the_usual_prompt_takes_the_place_of_an_agents_own(tmp_path: Path) -> None:
    """It is tried even where the settings of the receipt name another one."""
    whole = OWN.replace("id: harbour", "id: triage")
    async with served(tmp_path) as (_, backend, receipt):
        found = await replayed(backend, receipt, prompt=whole, settings={"prompt": "harbour", "strategy": "llm"})
    assert (found["tried"]["prompt"], found["tried"]["used"]) == ("triage@3", True)


async def test_what_a_prompt_extends_may_lie_in_the_services_folder(tmp_path: Path) -> None:
    folder = tmp_path / "prompts"
    folder.mkdir()
    usual = (ROOT / "prompts" / "triage.md").read_text(encoding="utf-8")
    (folder / "triage.md").write_text(usual, encoding="utf-8")
    (folder / "quay.md").write_text(usual.replace("id: triage", "id: quay"), encoding="utf-8")
    async with served(tmp_path, MEESEEKS_PROMPTS_DIR=str(folder)) as (_, backend, receipt):
        found = await replayed(backend, receipt, prompt=BASED, settings={"strategy": "llm"})
        assert found["tried"]["used"]
        with pytest.raises(OperationError, match="extends 'nowhere'"):
            await replayed(backend, receipt, prompt=OWN.replace("extends: triage", "extends: nowhere"))


async def test_a_prompt_of_another_use_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "prompts" / "triage.md").read_text(encoding="utf-8").replace("# Results", "# Other")
    async with served(tmp_path) as (_, backend, receipt):
        with pytest.raises(OperationError, match="not a prompt that selects"):
            await replayed(backend, receipt, prompt=text)


async def test_a_replay_logs_the_receipt_that_there_is(tmp_path: Path) -> None:
    async with served(tmp_path) as (_, backend, receipt):
        with capture_logs() as logs:
            await replayed(backend, receipt)
        listed = await backend.call(RECEIPTS, {"brief": True})
    assert [one["id"] for one in listed["receipts"]] == [receipt]
    assert [(entry["event"], entry["receipt"]) for entry in logs if "receipt" in entry] == [("replayed", receipt)]
    assert QUESTION not in json.dumps(logs)


def test_the_command_tries_an_agents_own_prompt(tmp_path: Path) -> None:
    """What it extends may lie beside it; without a model nobody is asked, and the command says so."""
    cli = command_line(tmp_path)
    cli.ok("remember", HOLD, "--id", "hold")
    receipt = cli.json("inject", QUESTION, "--session", "s1")["receipt_id"]
    usual = (ROOT / "prompts" / "triage.md").read_text(encoding="utf-8")
    (tmp_path / "quay.md").write_text(usual.replace("id: triage", "id: quay"), encoding="utf-8")
    (tmp_path / "mine.md").write_text(BASED, encoding="utf-8")
    found = cli.json("replay", receipt, "--prompt", str(tmp_path / "mine.md"))
    assert found["tried"] == {"prompt": "harbour@3", "strategy": "llm", "replaces": "triage", "used": False}
    shown = cli.ok("replay", receipt, "--prompt", str(tmp_path / "mine.md"))
    assert "harbour@3 instead of triage" in " ".join(shown.split())
    assert "not used" in shown
