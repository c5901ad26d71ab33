"""Events of hosts lead to captures from their transcripts: later, once, and from their own folders only."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hooks.queue import connect
from tests.support.paths import ROOT
from tests.support.valkey import forget
from worker.adapters.redis.transcripts import DUE_KEY
from worker.bootstrap.core import Core, open_core
from worker.operations import background_transcripts
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import EXPORT, HOST_HOOK, PUT
from worker.settings.injection import load_settings

TRANSCRIPT = ROOT / "tests" / "data" / "transcripts" / "claude-code.jsonl"
RULE = "we release on Thursdays"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the transcript of a session; what was said is read at once."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(background_transcripts, "AFTER_S", 0.0)
    (tmp_path / ".claude" / "projects" / "shop").mkdir(parents=True)
    shutil.copy(TRANSCRIPT, tmp_path / ".claude" / "projects" / "shop" / "s1.jsonl")
    return tmp_path


@pytest.fixture
async def core(home: Path, valkey: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Core]:
    settings = home / "meeseeks.toml"
    settings.write_text('[memory_injection]\ncapture = "auto"\n', encoding="utf-8")
    redis = connect(valkey)
    try:
        loaded = load_settings(settings, data_dir=home / "data", log_level="error", model="none")
        async with open_core(loaded, redis=redis) as opened:
            yield opened
    finally:
        await redis.aclose()
        forget(valkey)


async def happens(core: Core, name: str, home: Path, **fields: Any) -> dict[str, Any]:
    path = home / ".claude" / "projects" / "shop" / "s1.jsonl"
    event = {"hook_event_name": name, "session_id": "s1", "transcript_path": str(path), "prompt": "hello there"}
    payload = {"host": "claude-code", "event": event | fields, "scope": {"user": "hana"}}
    return await LocalOperationClient(core.operations).call(HOST_HOOK, payload)


async def memories(core: Core) -> list[dict[str, Any]]:
    page = await LocalOperationClient(core.operations).call(EXPORT, {"limit": 100})
    found: list[dict[str, Any]] = page["memories"]
    return found


async def settled(core: Core, valkey: str) -> list[dict[str, Any]]:
    """Return the memories when no transcript waits any more."""
    redis = connect(valkey)
    try:
        async with asyncio.timeout(20):
            while await redis.zcard(DUE_KEY):
                await asyncio.sleep(0.05)
    finally:
        await redis.aclose()
    return await memories(core)


@pytest.mark.parametrize("name", ["UserPromptSubmit", "Stop", "PreCompact", "SessionEnd", "SessionStart"])
async def test_what_was_said_is_captured_after_an_event(core: Core, home: Path, valkey: str, name: str) -> None:
    await happens(core, name, home)
    (memory,) = await settled(core, valkey)
    assert (memory["content"], memory["scope"]["user"]) == (RULE, "hana")
    assert (memory["evidence"]["host"], memory["evidence"]["session"]) == ("claude-code", "s1")


async def test_the_same_turns_are_captured_once_and_new_ones_later(core: Core, home: Path, valkey: str) -> None:
    for _ in range(3):
        await happens(core, "Stop", home)
        assert len(await settled(core, valkey)) == 1
    path = home / ".claude" / "projects" / "shop" / "s1.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    last = next(line for line in lines if line.get("uuid") == "u5")
    text = "Remember that Mia owns the parser"
    said = last | {"uuid": "u9", "parentUuid": "u7", "message": {"role": "user", "content": text}}
    path.write_text("\n".join(json.dumps(line) for line in [*lines, said]), encoding="utf-8")
    await happens(core, "Stop", home)
    assert {one["content"] for one in await settled(core, valkey)} == {RULE, "Mia owns the parser"}


async def test_no_other_file_is_read(core: Core, home: Path, valkey: str) -> None:
    outside = home / "secret.jsonl"
    shutil.copy(TRANSCRIPT, outside)
    link = home / ".claude" / "projects" / "shop" / "link.jsonl"
    link.symlink_to(outside)
    for path in (outside, link, home / "none.jsonl"):
        await happens(core, "Stop", home, transcript_path=str(path))
        assert await settled(core, valkey) == []


async def test_subagents_and_agents_without_capture_are_left_alone(core: Core, home: Path, valkey: str) -> None:
    await happens(core, "Stop", home, agent_id="a1", agent_type="Explore")
    await happens(core, "PostToolUse", home)
    assert await settled(core, valkey) == []


async def test_a_hook_is_hardly_slower_with_a_long_transcript(core: Core, home: Path, valkey: str) -> None:
    path = home / ".claude" / "projects" / "shop" / "s1.jsonl"
    path.write_text(path.read_text(encoding="utf-8") * 20_000, encoding="utf-8")
    await LocalOperationClient(core.operations).call(PUT, {"memories": []})
    begun = time.perf_counter()
    await happens(core, "Stop", home)
    assert time.perf_counter() - begun < 0.5, "50 ms on a quiet machine"
