"""Session events from the hook and the command to the ledger, through the queue; and the documented examples."""

import ast
import asyncio
import json
import re
import uuid
from types import CodeType
from typing import Any

import pytest

from hooks import Outcome, PreExecutionHook, Reason, SessionEvent
from tests.support.paths import ROOT
from tests.support.stack import MIGRATION, Answered, ModelServer, Stack, ask

DOCS = ROOT / "docs"


async def shown(service: Stack, session: str) -> dict[str, Any]:
    """What the command says that a session has been shown."""
    done = await service.command_here("session", "show", session, "--tenant", "acme", "--json")
    assert done.exit_code == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def answered(hook: PreExecutionHook, session: str) -> Answered:
    """The answer to the same question in a session; asked again where busy cores kept the worker from taking it up."""
    for _ in range(20):
        answer = await ask(hook, MIGRATION, session_id=session, mode="deterministic")
        if answer.result.outcome is not Outcome.TIMEOUT:
            return answer
    raise AssertionError("the worker took nothing up")


async def asked_twice(hook: PreExecutionHook) -> tuple[str, Answered, Answered]:
    """A session that was asked twice; another one where the ledger had no time, as a request goes on without it."""
    for _ in range(3):
        session = uuid.uuid4().hex
        first, second = await answered(hook, session), await answered(hook, session)
        if second.result.outcome is Outcome.ALL_DUPLICATE:
            break
    return session, first, second


async def test_after_a_compaction_memory_comes_again(hook: PreExecutionHook) -> None:
    session, first, second = await asked_twice(hook)
    event = {"type": "context.compacted", "session_id": session, "tenant": "acme"}
    told = await hook.event(event)
    while told.reason is Reason.NO_ACK:
        told = await hook.event(event)
    third = await answered(hook, session)
    assert first.ids == third.ids == ["alembic"]
    assert second.result.outcome is Outcome.ALL_DUPLICATE
    assert (told.done, told.reason, told.forgotten) == (True, None, 1)
    assert 0 < told.elapsed_ms < 1000


async def test_sessions_on_the_command_line(hook: PreExecutionHook, service: Stack) -> None:
    session = uuid.uuid4().hex
    await answered(hook, session)
    (agent,) = (await shown(service, session))["agents"]
    assert [entry["id"] for entry in agent["shown"]] == ["alembic"]
    assert "never by hand" in agent["shown"][0]["text"]
    options = ("--tenant", "acme", "--json")
    forked = await asyncio.to_thread(
        service.command, "session", "event", f"{session}-2", "session.forked", "--parent", session, *options
    )
    assert json.loads(forked.stdout)["adopted"] == 1
    reset = await service.command_here("session", "reset", session, *options)
    assert json.loads(reset.stdout)["forgotten"] == 1
    assert (await shown(service, session))["agents"] == []
    assert len((await shown(service, f"{session}-2"))["agents"]) == 1
    wrong = await service.command_here("session", "event", session, "turn.failed", *options)
    assert (wrong.exit_code, json.loads(wrong.stdout)) == (1, {"error": "turn.failed needs turn_id"})


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        ({"type": "session.exploded", "session_id": "s"}, Reason.BAD_REQUEST),
        ({"type": "turn.failed", "session_id": "s"}, Reason.BAD_REQUEST),
        ({}, Reason.BAD_REQUEST),
        (None, Reason.BAD_REQUEST),
    ],
)
async def test_wrong_events_are_refused_and_never_raise(hook: PreExecutionHook, event: Any, reason: Reason) -> None:
    told = await hook.event(event)
    assert (told.done, told.reason) == (False, reason)


async def test_without_redis_an_event_is_not_done() -> None:
    event = SessionEvent(type="session.cleared", session_id="s", deadline_ms=400)
    async with PreExecutionHook("unix:///no/such/socket") as lost:
        assert (await lost.event(event)).reason is Reason.QUEUE_UNAVAILABLE


async def test_the_documentations_examples_run(hook: PreExecutionHook, model: ModelServer) -> None:
    text = (DOCS / "sessions.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(examples) == 3
    await answered(hook, uuid.uuid4().hex)
    names: dict[str, Any] = {"hook": hook}
    for example in examples:
        code: CodeType = compile(example, "sessions.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        pending = eval(code, names)
        if pending is not None:
            await pending
    assert names["result"].memory_context
    assert names["result"].history_cap == 3
