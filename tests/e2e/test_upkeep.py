"""Upkeep from the terminal: a report, the changes, what sessions are told then, and back again."""

import uuid
from typing import Any

from hooks import PreExecutionHook
from tests.support.stack import Stack, ask, fact, put

QUESTION = "On which day do we release?"


async def test_duplicates_are_merged_told_once_and_brought_back(service: Stack, hook: PreExecutionHook) -> None:
    tenant = uuid.uuid4().hex
    again = fact("again", "We release on Thursdays.", created_at="2026-02-01T09:00:00Z")
    old = fact("backup4", "The nightly backup runs at 4", created_at="2025-02-01T09:00:00Z")
    memories = [fact("first", "We release on Thursdays"), again, old, fact("backup5", "The nightly backup runs at 5")]
    await put(service.url, memories, tenant)
    report = (await service.command_here("upkeep", "--tenant", tenant)).stdout
    assert "would be merged" in report
    assert "nothing was changed, make these changes with: meeseeks upkeep --apply" in report
    run = (await service.said_here("upkeep", "--apply", "--tenant", tenant))["run"]
    assert [(step["kind"], step["memory"], step["state"]) for step in run["steps"]] == [
        ("merge", "again", "done"),
        ("propose", "backup5", "done"),
    ]
    assert "replaces: The nightly backup runs at 4" in (await service.command_here("review", "--tenant", tenant)).stdout
    fields: dict[str, Any] = {"scope": {"tenant": tenant}, "mode": "deterministic"}
    told = await ask(hook, QUESTION, session_id=uuid.uuid4().hex, **fields)
    assert told.ids == ["again"]
    undone = await service.command_here("upkeep", "--undo", run["id"], "--tenant", tenant)
    assert f"undone: {run['id']}, 2 changes" in undone.stdout
    assert "superseded_by" not in (await service.said_here("show", "first", "--tenant", tenant))["memory"]
    assert (await service.said_here("upkeep", "--tenant", tenant))["run"]["steps"] == []
    assert (await service.said_here("upkeep", "--last", "--tenant", tenant))["run"]["apply"] is False
    wrong = await service.command_here("upkeep", "--apply", "--last")
    assert (wrong.exit_code, "use one of" in wrong.stderr) == (1, True)
    assert "nightly backup" not in service.log
