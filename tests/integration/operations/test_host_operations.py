"""Native hooks on a real service: store, embedder, ledger and waiting tasks in a real Valkey. Deterministic engine."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hooks import wire
from hooks.blocks import find_blocks
from hooks.queue import connect
from tests.support.hosts import Fixture, event_of, fixtures
from tests.support.valkey import forget, running_valkey
from worker.adapters.local.subagents import MOST_KINDS, MemorySubagents
from worker.adapters.redis.subagents import RedisSubagents
from worker.bootstrap.core import Core, open_core
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound, QueueError
from worker.domain.operation import OperationAnswer
from worker.hosts import HOSTS, SubagentKind, SubagentTask
from worker.hosts.subagents import WAIT_S, PendingSubagents
from worker.operations.hosts import CANARY_SESSION, CANARY_TENANT, HostOperations
from worker.operations.memories import PUT
from worker.operations.sessions import SESSION_SHOW
from worker.settings.injection import load_settings

ALEMBIC = "Database migrations are written with Alembic and never by hand"
TUESDAY = "Deployments to production happen on Tuesdays after the stand-up"
MIGRATION = "Write the database migration for the new column, with Alembic or by hand?"
DEPLOYMENT = "When may the deployment to production happen?"
KIND = SubagentKind("default", "s", "reviewer")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running_valkey() as server:
        yield server.url


@dataclass
class Door:
    """A service as a host sees it; `commit` stands for what the command does once it has printed."""

    core: Core
    redis: Any

    async def hook(self, host: str, event: Any, *, commit: bool = True, **more: Any) -> dict[str, Any]:
        answer = await self.ask({"host": host, "event": event, **more})
        if commit and answer.commit is not None:
            assert await self.redis.eval(wire.COMMIT, 1, *answer.commit) == 1
        return answer.body

    async def ask(self, payload: dict[str, Any]) -> OperationAnswer:
        return await self.core.operations[wire.HOST_HOOK](payload, Deadline.after(5))

    async def put(self, *contents: str, tenant: str = "default") -> None:
        memories = [
            {"id": f"m{place}", "content": content, "created_at": "2026-01-10T09:00:00Z"}
            for place, content in enumerate(contents)
        ]
        await self.core.operations[PUT]({"tenant": tenant, "memories": memories}, Deadline.after(5))

    async def shown(self, session_id: str) -> dict[str, list[str]]:
        """What counts as shown, by agent."""
        payload = {"tenant": "default", "session_id": session_id}
        told = await self.core.operations[SESSION_SHOW](payload, Deadline.after(5))
        return {agent["agent_id"]: [entry["id"] for entry in agent["shown"]] for agent in told.body["agents"]}


@asynccontextmanager
async def open_door(url: str, folder: Path) -> AsyncIterator[Door]:
    settings = load_settings(None, data_dir=folder, model="none", log_level="error")
    redis = connect(url)
    try:
        async with open_core(settings, redis=redis, with_model=False) as core:
            yield Door(core, redis)
    finally:
        await redis.aclose()
        forget(url)


def context(output: dict[str, Any]) -> str:
    found: str = output["hookSpecificOutput"]["additionalContext"]
    return found


def prompt(text: str, turn: str, session_id: str = "s", **more: Any) -> dict[str, Any]:
    return {
        "hook_event_name": "UserPromptSubmit",
        "session_id": session_id,
        "prompt_id": turn,
        "prompt": text,
        **more,
    }


@pytest.mark.parametrize("fixture", fixtures("with_block"), ids=str)
async def test_golden_events_there_and_back(fixture: Fixture, url: str, tmp_path: Path) -> None:
    """With a store that holds what they need, each gets it in its host's own words; with an empty one, nothing."""
    async with open_door(url, tmp_path) as door:
        await _announced(door, fixture)
        assert await door.hook(fixture.host.name, fixture.event) == fixture.host.nothing
        await door.put(ALEMBIC)
        await _announced(door, fixture)
        again = {**fixture.event, "prompt_id": "2", "turn_id": "2"}
        output = await door.hook(fixture.host.name, again)
        assert fixture.host.faults(again, output) == []
        assert output.keys() == fixture.raw["with_block"].keys()
        assert "Alembic and never by hand (2026-01-10)" in str(output)


async def _announced(door: Door, fixture: Fixture) -> None:
    if "start" in fixture.raw:
        kind = fixture.raw["start"]
        tool = {"prompt": MIGRATION, "subagent_type": kind["agent_type"]}
        event = {"hook_event_name": "PreToolUse", "session_id": kind["session_id"], "tool_name": "Agent"}
        assert await door.hook("claude-code", {**event, "tool_input": tool}) == {}


async def test_a_block_is_shown_once_until_the_context_is_compacted(url: str, tmp_path: Path) -> None:
    async with open_door(url, tmp_path) as door:
        await door.put(ALEMBIC, TUESDAY)
        assert "Alembic" in context(await door.hook("claude-code", prompt(MIGRATION, "1")))
        assert await door.hook("claude-code", prompt(MIGRATION, "2")) == {}
        for name in ("pre-compact", "post-compact"):
            event = {**event_of(f"claude-code/{name}"), "session_id": "s"}
            assert await door.hook("claude-code", event) == {}
        assert "Alembic" in context(await door.hook("claude-code", prompt(MIGRATION, "3")))


async def test_what_was_not_delivered_does_not_count(url: str, tmp_path: Path) -> None:
    async with open_door(url, tmp_path) as door:
        await door.put(ALEMBIC)
        assert "Alembic" in context(await door.hook("codex", prompt(MIGRATION, "1"), commit=False))
        assert "Alembic" in context(await door.hook("codex", prompt(MIGRATION, "2")))


async def test_a_subagent_gets_the_memory_of_its_task_and_only_then_it_counts(url: str, tmp_path: Path) -> None:
    tool = event_of("claude-code/pre-tool-use.agent")
    start = event_of("claude-code/subagent-start")
    session_id = tool["session_id"]
    async with open_door(url, tmp_path) as door:
        await door.put(ALEMBIC)
        assert await door.hook("claude-code", tool) == {}
        assert await door.shown(session_id) == {}
        answer = await door.ask({"host": "claude-code", "event": start})
        assert find_blocks(context(answer.body)) == [context(answer.body)]
        assert await door.shown(session_id) == {start["agent_id"]: []}
        assert answer.commit is not None
        await door.redis.eval(wire.COMMIT, 1, *answer.commit)
        assert await door.shown(session_id) == {start["agent_id"]: ["m0"]}
        assert await door.hook("claude-code", start) == {}, "its task was taken"
        main = prompt(MIGRATION, "1", session_id)
        assert "Alembic" in context(await door.hook("claude-code", main)), "the main agent has not seen it"


async def test_of_several_waiting_subagents_none_gets_the_memory_of_another(url: str, tmp_path: Path) -> None:
    start = {**event_of("claude-code/subagent-start"), "session_id": "s"}
    tool = {**event_of("claude-code/pre-tool-use.agent"), "session_id": "s"}
    other = {**tool, "tool_input": {**tool["tool_input"], "prompt": DEPLOYMENT}}
    async with open_door(url, tmp_path) as door:
        await door.put(ALEMBIC, TUESDAY)
        for event in (tool, other):
            await door.hook("claude-code", event)
        assert [await door.hook("claude-code", {**start, "agent_id": name}) for name in "ab"] == [{}, {}]
        await door.hook("claude-code", other)
        assert "Tuesdays" in context(await door.hook("claude-code", {**start, "agent_id": "c"}))


async def test_gobby_forgets_and_says_how_many(url: str, tmp_path: Path) -> None:
    recall, reset = event_of("gobby/recall"), event_of("gobby/reset")
    async with open_door(url, tmp_path) as door:
        await door.put(ALEMBIC)
        assert (await door.hook("gobby", {**recall, "turn_id": "1"}))["count"] == 1
        assert await door.hook("gobby", {**recall, "turn_id": "2"}) == {"injected": False, "count": 0}
        assert await door.hook("gobby", reset) == {"memory_tracking_reset": True, "previous_count": 1}
        assert (await door.hook("gobby", {**recall, "turn_id": "3"}))["count"] == 1


async def test_the_tenant_of_the_caller_is_a_hard_border(url: str, tmp_path: Path) -> None:
    async with open_door(url, tmp_path) as door:
        await door.put(ALEMBIC, tenant="acme")
        assert await door.hook("codex", prompt(MIGRATION, "1")) == {}
        output = await door.hook("codex", prompt(MIGRATION, "1"), scope={"tenant": "acme"})
        assert "Alembic" in context(output)


async def test_a_canary_sees_the_doctors_tenant_alone(url: str, tmp_path: Path) -> None:
    async with open_door(url, tmp_path) as door:
        await door.put(ALEMBIC, tenant=CANARY_TENANT)
        await door.put(TUESDAY)
        output = await door.hook("codex", prompt(MIGRATION, "1", CANARY_SESSION + "1"), scope={"tenant": "acme"})
        assert "Alembic" in context(output)
        assert await door.hook("codex", prompt(DEPLOYMENT, "2", CANARY_SESSION + "1")) == {}


@pytest.mark.parametrize("event", [None, [], "x", 7, {}, {"hook_event_name": "UserPromptSubmit"}])
async def test_events_of_any_form_get_the_hosts_nothing(event: Any) -> None:
    async def never(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        raise AssertionError

    operations = HostOperations(never, never, MemorySubagents())
    for name, host in HOSTS.items():
        answer = await operations.hook({"host": name, "event": event}, Deadline.after(1))
        assert answer == OperationAnswer(dict(host.nothing))


async def test_an_unknown_host_is_told_which_there_are() -> None:
    async def never(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        raise AssertionError

    operations = HostOperations(never, never, MemorySubagents())
    with pytest.raises(NotFound, match="there is no host 'emacs'; the hosts are claude-code, codex, gobby, nexus"):
        await operations.hook({"host": "emacs", "event": {}}, Deadline.after(1))


async def test_a_fault_below_becomes_the_hosts_nothing(tmp_path: Path) -> None:
    """Nobody listens there: neither ledger nor waiting tasks can be reached."""
    redis = connect(f"unix://{tmp_path}/nobody")
    settings = load_settings(None, data_dir=tmp_path, model="none", embedder="none", log_level="error")
    async with open_core(settings, redis=redis, with_model=False) as core:
        for name in ("post-compact", "pre-tool-use.agent", "subagent-start"):
            payload = {"host": "claude-code", "event": event_of(f"claude-code/{name}")}
            assert await core.operations[wire.HOST_HOOK](payload, Deadline.after(2)) == OperationAnswer({})
    await redis.aclose()


@pytest.fixture(params=["memory", "redis"])
async def subagents(request: pytest.FixtureRequest, url: str) -> AsyncIterator[PendingSubagents]:
    if request.param == "memory":
        yield MemorySubagents()
        return
    redis = connect(url)
    yield RedisSubagents(redis)
    await redis.aclose()
    forget(url)


async def test_one_waiting_task_is_taken_once(subagents: PendingSubagents) -> None:
    task = SubagentTask("Look \ud800\u20ac", "d", "t")
    await subagents.announce(KIND, task)
    assert await subagents.start(SubagentKind("default", "s", "tester")) is None
    assert await subagents.start(SubagentKind("acme", "s", "reviewer")) is None
    assert await subagents.start(KIND) == task
    assert await subagents.start(KIND) is None


async def test_a_mixed_kind_is_clean_again_once_as_many_have_started(subagents: PendingSubagents) -> None:
    first, second, third = (SubagentTask(text) for text in "abc")
    await subagents.announce(KIND, first)
    await subagents.announce(KIND, second)
    assert await subagents.start(KIND) is None
    await subagents.announce(KIND, third)
    assert await subagents.start(KIND) is None
    assert await subagents.start(KIND) is None
    await subagents.announce(KIND, first)
    assert await subagents.start(KIND) == first


async def test_many_at_once_never_pair_wrongly(subagents: PendingSubagents) -> None:
    kinds = [SubagentKind("default", f"s{number}", "reviewer") for number in range(20)]

    async def life(kind: SubagentKind) -> SubagentTask | None:
        await subagents.announce(kind, SubagentTask(kind.session_id))
        return await subagents.start(kind)

    found = await asyncio.gather(*(life(kind) for kind in kinds))
    assert [task.prompt for task in found if task] == [kind.session_id for kind in kinds]


async def test_what_waits_in_memory_is_bounded_and_expires() -> None:
    now = 0.0
    subagents = MemorySubagents(lambda: now)
    for number in range(MOST_KINDS + 1):
        await subagents.announce(SubagentKind("default", f"s{number}", "reviewer"), SubagentTask("x"))
    assert await subagents.start(SubagentKind("default", "s0", "reviewer")) is None
    assert await subagents.start(SubagentKind("default", "s1", "reviewer")) is not None
    now = WAIT_S
    assert await subagents.start(SubagentKind("default", "s2", "reviewer")) is None


async def test_what_waits_in_redis_expires(url: str) -> None:
    redis = connect(url)
    subagents = RedisSubagents(redis)
    for text in "ab":
        await subagents.announce(KIND, SubagentTask(text))
    await subagents.start(KIND)
    keys = await redis.keys("meeseeks:subagent:*")
    assert len(keys) == 2
    assert all([0 < await redis.pttl(key) <= WAIT_S * 1000 for key in keys])
    await redis.aclose()
    forget(url)


async def test_redis_out_of_reach_is_an_error_of_ours(tmp_path: Path) -> None:
    redis = connect(f"unix://{tmp_path}/nobody")
    with pytest.raises(QueueError, match="tasks are out of reach"):
        await RedisSubagents(redis).start(KIND)
    await redis.aclose()
