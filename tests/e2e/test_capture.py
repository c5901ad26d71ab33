"""A transcript becomes memories that the next session is told, once, and until it is undone."""

import json
import uuid
from typing import Any

import pytest

from hooks import PreExecutionHook
from tests.support.paths import ROOT
from tests.support.stack import Stack, ask

pytestmark = pytest.mark.timeout(150)

TRANSCRIPT = ROOT / "tests" / "data" / "transcripts" / "claude-code.jsonl"
QUESTION = "On which day do we release?"


def said(stack: Stack, *arguments: str) -> Any:
    done = stack.command(*arguments, "--json")
    assert done.returncode == 0, (done.stdout, done.stderr)
    return json.loads(done.stdout)


async def test_a_transcript_is_captured_once_reviewed_told_and_undone(service: Stack, hook: PreExecutionHook) -> None:
    tenant = uuid.uuid4().hex
    first = service.command("capture", str(TRANSCRIPT), "--tenant", tenant)
    assert "proposed p" in first.stdout
    assert said(service, "capture", str(TRANSCRIPT), "--tenant", tenant)["new_turns"] == 0
    (waiting,) = said(service, "review", "--tenant", tenant)["proposals"]
    listed = service.command("review", "--tenant", tenant).stdout
    assert "said 2026-03-04: Remember that we release on Thursdays" in listed
    (accepted,) = said(service, "review", "--accept", waiting["id"], "--tenant", tenant)["accepted"]
    fields: dict[str, Any] = {"scope": {"tenant": tenant}, "mode": "deterministic"}
    told = await ask(hook, QUESTION, session_id=uuid.uuid4().hex, **fields)
    assert told.ids == [accepted["id"]]
    assert service.command("review", "--undo", waiting["capture"], "--tenant", tenant).returncode == 0
    told = await ask(hook, QUESTION, session_id=uuid.uuid4().hex, **fields)
    assert told.ids == []
    again = service.command("remember", "we release on Thursdays", "--tenant", tenant)
    assert again.returncode == 0
    assert "release on Thursdays" not in service.log


def test_a_file_without_turns_says_so(service: Stack, tmp_path: Any) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("buy milk", encoding="utf-8")
    done = service.command("capture", str(other))
    assert done.returncode == 1
    assert "name its format with --format" in done.stderr
