"""A session of an agent with a briefing begins with it, through the hook and through a host, once."""

import json
import uuid
from typing import Any

from hooks import PreExecutionHook
from hooks.queue import QueueClient
from tests.support.stack import Stack, ask, fact, put
from worker.operations.registry import HOST_HOOK


async def test_a_session_begins_with_a_briefing(service: Stack, hook: PreExecutionHook) -> None:
    tenant, agent = uuid.uuid4().hex, f"a{uuid.uuid4().hex}"
    room = fact("room", "Paint the studio", type="goal", channel="studio")
    todo = fact("todo", "Renew the certificate of the kiln", type="todo")
    await put(service.url, [fact("goal", "Ship Kingfisher in March", type="goal"), todo, room], tenant)
    assert service.command("settings", "set", "briefing", "true", "--agent", agent).returncode == 0
    session: dict[str, Any] = {"session_id": uuid.uuid4().hex, "agent_id": agent, "mode": "deterministic"}
    scope = {"tenant": tenant, "channel": "dm"}
    first = await ask(hook, "hello", scope=scope, **session)
    assert first.ids == ["goal", "todo"]
    again = await ask(hook, "What about Kingfisher in March?", scope=scope, **session)
    assert again.ids == []
    other = await ask(hook, "hello", scope={"tenant": tenant}, mode="deterministic")
    assert other.ids == []
    receipts = service.command("admin", "receipts", first.result.receipt_id or "", "--tenant", tenant, "--json")
    assert json.loads(receipts.stdout)["chosen"] == ["goal", "todo"]


async def test_the_first_prompt_of_a_host_gets_it(service: Stack) -> None:
    tenant, agent = uuid.uuid4().hex, f"a{uuid.uuid4().hex}"
    await put(service.url, [fact("goal", "Ship Kingfisher in March", type="goal")], tenant)
    assert service.command("settings", "set", "briefing", "true", "--agent", agent).returncode == 0
    event = {"hook_event_name": "UserPromptSubmit", "session_id": uuid.uuid4().hex, "agent_id": agent, "prompt": "hi"}
    client = QueueClient(service.url)
    try:
        payload = {"host": "claude-code", "event": event, "scope": {"tenant": tenant}}
        told = await client.ask(HOST_HOOK.name, payload, budget=10.0)
    finally:
        await client.aclose()
    assert "Ship Kingfisher in March" in json.dumps(told.body)
