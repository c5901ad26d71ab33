"""A transcript becomes memories that the next session is told, once, and until it is undone."""

import asyncio
import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from hooks import PreExecutionHook
from tests.support.paths import ROOT
from tests.support.stack import Stack, ask, exported, running_stack, shim
from tests.support.valkey import sync_redis
from worker.adapters.redis.transcripts import DUE_KEY

TRANSCRIPT = ROOT / "tests" / "data" / "transcripts" / "claude-code.jsonl"
QUESTION = "On which day do we release?"


async def test_a_transcript_is_captured_once_reviewed_told_and_undone(service: Stack, hook: PreExecutionHook) -> None:
    tenant = uuid.uuid4().hex
    first = await service.command_here("capture", str(TRANSCRIPT), "--tenant", tenant)
    assert "proposed p" in first.stdout
    assert (await service.said_here("capture", str(TRANSCRIPT), "--tenant", tenant))["new_turns"] == 0
    (waiting,) = (await service.said_here("review", "--tenant", tenant))["proposals"]
    listed = (await service.command_here("review", "--tenant", tenant)).stdout
    assert "said 2026-03-04: Remember that we release on Thursdays" in listed
    (accepted,) = (await service.said_here("review", "--accept", waiting["id"], "--tenant", tenant))["accepted"]
    fields: dict[str, Any] = {"scope": {"tenant": tenant}, "mode": "deterministic"}
    told = await ask(hook, QUESTION, session_id=uuid.uuid4().hex, **fields)
    assert told.ids == [accepted["id"]]
    assert (await service.command_here("review", "--undo", waiting["capture"], "--tenant", tenant)).exit_code == 0
    told = await ask(hook, QUESTION, session_id=uuid.uuid4().hex, **fields)
    assert told.ids == []
    again = await service.command_here("remember", "we release on Thursdays", "--tenant", tenant)
    assert again.exit_code == 0
    assert "release on Thursdays" not in service.log


async def test_a_long_transcript_is_undone_capture_by_capture(service: Stack, tmp_path: Path) -> None:
    tenant, plain = uuid.uuid4().hex, tmp_path / "long.jsonl"
    turns = [{"role": "user", "text": f"remember that shelf {number} holds nails"} for number in range(13)]
    plain.write_text("\n".join(map(json.dumps, turns)), encoding="utf-8")
    done = await service.command_here("capture", str(plain), "--mode", "auto", "--tenant", tenant)
    undos = [line.split() for line in done.stdout.splitlines() if line.startswith("undo with: meeseeks ")]
    assert len(undos) == 2
    for words in undos:
        assert (await service.command_here(*words[3:], "--tenant", tenant)).exit_code == 0
    assert (await service.said_here("list", "--tenant", tenant))["memories"] == []


async def test_a_file_without_turns_says_so(service: Stack, tmp_path: Any) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("buy milk", encoding="utf-8")
    done = await service.command_here("capture", str(other))
    assert done.exit_code == 1
    assert "name its format with --format" in done.stderr


async def test_what_a_hook_noted_outlives_a_kill_and_is_captured_once(tmp_path: Path) -> None:
    path = tmp_path / ".claude" / "projects" / "shop" / "s1.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copy(TRANSCRIPT, path)
    settings = tmp_path / "settings.toml"
    settings.write_text('[memory_injection]\ncapture = "auto"\n', encoding="utf-8")
    variables = {"HOME": str(tmp_path), "MEESEEKS_CONFIG": str(settings), "MEESEEKS_EMBEDDER": "none"}
    event = {"session_id": "s1", "transcript_path": str(path), "cwd": str(tmp_path)}
    with running_stack(tmp_path / "service", "up", MEESEEKS_MODEL="none", **variables) as stack:
        for name in ("SessionEnd", "PreCompact"):
            assert shim(stack.url, event | {"hook_event_name": name}, host="claude-code").returncode == 0
            stack.kill()
            stack.start()
            with sync_redis(stack.url) as redis:
                async with asyncio.timeout(30):
                    while redis.zcard(DUE_KEY):
                        await asyncio.sleep(0.05)
            assert list((await exported(stack.url, "default")).values()) == ["we release on Thursdays"]
