"""Events of hosts lead to captures from their transcripts: later, once, and from their own folders only."""

import asyncio
import json
import shutil
import statistics
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.load import Stopwatch
from tests.support.paths import ROOT
from tests.support.valkey import forget
from worker.adapters.redis.captures import RedisCaptures
from worker.adapters.redis.due_work import DueWork
from worker.adapters.redis.transcripts import DUE_KEY, redis_transcripts
from worker.bootstrap import capturing
from worker.bootstrap.core import Core, open_core
from worker.domain.capture import TranscriptWork
from worker.domain.errors import QueueError
from worker.operations import background_transcripts
from worker.operations.background_transcripts import TranscriptPace
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import CAPTURE, EXPORT, HOST_HOOK, PROPOSAL_REJECT, PROPOSALS
from worker.operations.retrying import Pause
from worker.settings.injection import load_settings

TRANSCRIPT = ROOT / "tests" / "data" / "transcripts" / "claude-code.jsonl"
RULE = "we release on Thursdays"
QUESTION = "On which day do we release, Thursdays or Fridays?"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the transcript of a session; what was said is read at once."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(background_transcripts, "AFTER_S", 0.0)
    monkeypatch.setattr(background_transcripts, "MOST_ATTEMPTS", 6)
    monkeypatch.setattr(capturing, "TRANSCRIPT_PACE", TranscriptPace(0.02, Pause(0.02, 0.05), full=0.05))
    (tmp_path / ".claude" / "projects" / "shop").mkdir(parents=True)
    shutil.copy(TRANSCRIPT, tmp_path / ".claude" / "projects" / "shop" / "s1.jsonl")
    return tmp_path


@pytest.fixture
def mode() -> str:
    return "auto"


@asynccontextmanager
async def service(home: Path, valkey: str, mode: str = "auto") -> AsyncIterator[Core]:
    settings = home / "meeseeks.toml"
    settings.write_text(f'[memory_injection]\ncapture = "{mode}"\n', encoding="utf-8")
    redis = connect(valkey)
    try:
        loaded = load_settings(settings, data_dir=home / "data", log_level="error", model="none")
        async with open_core(loaded, redis=redis) as opened:
            yield opened
    finally:
        await redis.aclose()


@pytest.fixture
async def core(home: Path, valkey: str, mode: str) -> AsyncIterator[Core]:
    async with service(home, valkey, mode) as opened:
        yield opened
    forget(valkey)


@asynccontextmanager
async def open_transcripts(valkey: str) -> AsyncIterator[DueWork[TranscriptWork]]:
    redis = connect(valkey)
    try:
        yield redis_transcripts(redis)
    finally:
        await redis.aclose()


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
    circle = home / ".claude" / "projects" / "shop" / "circle.jsonl"
    circle.symlink_to(circle)
    for path in (outside, link, circle, home / "none.jsonl", f"{home}/\0.jsonl", "x" * 5_000):
        await happens(core, "Stop", home, transcript_path=str(path))
        assert await settled(core, valkey) == []


async def test_a_file_that_is_not_there_yet_is_read_when_it_is(core: Core, home: Path, valkey: str) -> None:
    late = home / ".claude" / "projects" / "shop" / "late.jsonl"
    await happens(core, "SessionEnd", home, transcript_path=str(late))
    await asyncio.sleep(0.1)
    shutil.copy(TRANSCRIPT, late)
    assert [one["content"] for one in await settled(core, valkey)] == [RULE]


async def test_a_note_survives_a_long_outage(
    core: Core, home: Path, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    async def lost(*_: Any) -> None:
        asked.append(len(asked))
        raise QueueError(Reason.QUEUE_UNAVAILABLE, "Redis is unreachable")

    with monkeypatch.context() as patch:
        patch.setattr(RedisCaptures, "captured", lost)
        await happens(core, "SessionEnd", home)
        async with asyncio.timeout(20):
            while len(asked) <= 2 * background_transcripts.MOST_ATTEMPTS:
                await asyncio.sleep(0.02)
    assert [one["content"] for one in await settled(core, valkey)] == [RULE]


@pytest.mark.parametrize("mode", ["review"])
async def test_a_transcript_waits_while_enough_proposals_do(core: Core, home: Path, valkey: str) -> None:
    client = LocalOperationClient(core.operations)
    turns = [{"role": "user", "text": f"remember that shelf {number} holds nails"} for number in range(20)]
    done = await client.call(CAPTURE, {"session_id": "s0", "user": "hana", "turns": turns})
    await happens(core, "SessionEnd", home)
    await asyncio.sleep(0.2)
    await client.call(PROPOSAL_REJECT, {"id": done["changes"][0]["id"]})
    await settled(core, valkey)
    found = (await client.call(PROPOSALS, {}))["proposals"]
    assert RULE in [one["change"]["memory"]["content"] for one in found]


async def test_subagents_and_agents_without_capture_are_left_alone(core: Core, home: Path, valkey: str) -> None:
    await happens(core, "Stop", home, agent_id="a1", agent_type="Explore")
    await happens(core, "PostToolUse", home)
    assert await settled(core, valkey) == []


async def test_ten_minutes_and_a_killed_worker_later_a_new_session_is_told(
    home: Path, valkey: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time is that of a clock that the test moves on."""
    now = datetime.now(UTC)
    monkeypatch.setattr(capturing, "utc_now", lambda: now)
    monkeypatch.setattr(background_transcripts, "AFTER_S", 60.0)
    async with service(home, valkey) as core:
        await happens(core, "Stop", home)
        assert await memories(core) == []
    async with open_transcripts(valkey) as queue:
        now += timedelta(minutes=2)
        assert await queue.claim(now, timedelta(minutes=5)) is not None, "by a worker that is killed before it is done"
    for _ in range(2):
        now += timedelta(minutes=8)
        async with service(home, valkey) as core:
            await happens(core, "SessionStart", home)
            assert [one["content"] for one in await settled(core, valkey)] == [RULE]
            told = await happens(core, "UserPromptSubmit", home, session_id=uuid.uuid4().hex, prompt=QUESTION)
            assert RULE in told["hookSpecificOutput"]["additionalContext"]
    forget(valkey)


async def test_a_hook_is_hardly_slower_with_a_long_transcript(core: Core, home: Path, valkey: str) -> None:
    path = home / ".claude" / "projects" / "shop" / "s1.jsonl"
    path.write_text(path.read_text(encoding="utf-8") * 20_000, encoding="utf-8")
    times = []
    for _ in range(21):
        watch = Stopwatch()
        await happens(core, "Stop", home)
        times.append(watch.seconds)
    assert statistics.median(times) < 0.05
