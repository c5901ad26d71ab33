"""Host hooks on a real service with a real Valkey and the deterministic engine."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hooks.contract.blocks import find_blocks
from hooks.protocol import wire
from hooks.queue import connect
from tests.support.hosts import Fixture, event_of, fixtures
from tests.support.valkey import forget, running_valkey
from worker.adapters.local.host_state import MemoryHostState
from worker.adapters.local.subagents import MOST_KINDS, MemorySubagents
from worker.adapters.redis.subagents import RedisSubagents
from worker.bootstrap.core import open_core
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound, QueueError
from worker.domain.operation import JsonObject, OperationAnswer
from worker.hosts import HOSTS, SubagentKind, SubagentTask
from worker.hosts.subagents import WAIT_S, PendingSubagents
from worker.operations.hosts import DOCTOR_SESSION, DOCTOR_TENANT, HostOperations, OwnHandlers
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import HOST_HOOK, INJECT, PUT, SESSION_EVENT, SESSION_SHOW
from worker.operations.requests import HostHookRequest
from worker.settings.injection import InjectionConfig, load_settings

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
class Service:
    """A service as a host sees it. `commit` does what the command does after printing."""

    client: LocalOperationClient
    redis: Any

    async def hook(self, host: str, event: Any, *, commit: bool = True, **more: Any) -> dict[str, Any]:
        answer = await self.ask({"host": host, "event": event, **more})
        if commit and answer.commit is not None:
            assert await self.redis.eval(wire.COMMIT, 1, *answer.commit) == 1
        return answer.body

    async def ask(self, payload: dict[str, Any]) -> OperationAnswer:
        return await self.client.ask(HOST_HOOK, payload)

    async def put(self, *contents: str, tenant: str = "default") -> None:
        memories = [
            {"id": f"m{place}", "content": content, "created_at": "2026-01-10T09:00:00Z"}
            for place, content in enumerate(contents)
        ]
        await self.client.call(PUT, {"tenant": tenant, "memories": memories})

    async def shown(self, session_id: str) -> dict[str, list[str]]:
        """Return the shown memories by agent."""
        payload = {"tenant": "default", "session_id": session_id}
        found = await self.client.call(SESSION_SHOW, payload)
        return {agent["agent_id"]: [entry["id"] for entry in agent["shown"]] for agent in found["agents"]}


@asynccontextmanager
async def open_service(url: str, folder: Path) -> AsyncIterator[Service]:
    settings = load_settings(None, data_dir=folder, model="none", log_level="error")
    redis = connect(url)
    try:
        async with open_core(settings, redis=redis, with_model=False) as core:
            yield Service(LocalOperationClient(core.operations), redis)
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
async def test_golden_events_return_the_native_output(fixture: Fixture, url: str, tmp_path: Path) -> None:
    """With a matching memory, each event returns it in its host's format; with an empty store, nothing."""
    async with open_service(url, tmp_path) as service:
        await _announced(service, fixture)
        assert await service.hook(fixture.host.name, fixture.event) == fixture.host.nothing
        await service.put(ALEMBIC)
        await _announced(service, fixture)
        again = {**fixture.event, "prompt_id": "2", "turn_id": "2"}
        output = await service.hook(fixture.host.name, again)
        assert fixture.host.faults(again, output) == []
        assert output.keys() == fixture.raw["with_block"].keys()
        assert "Alembic and never by hand (2026-01-10)" in str(output)


async def _announced(service: Service, fixture: Fixture) -> None:
    if "start" in fixture.raw:
        kind = fixture.raw["start"]
        tool = {"prompt": MIGRATION, "subagent_type": kind["agent_type"]}
        event = {"hook_event_name": "PreToolUse", "session_id": kind["session_id"], "tool_name": "Agent"}
        assert await service.hook("claude-code", {**event, "tool_input": tool}) == {}


async def test_an_event_may_name_its_time_zone(url: str, tmp_path: Path) -> None:
    async with open_service(url, tmp_path) as service:
        memory = {"id": "m", "content": ALEMBIC, "created_at": "2026-01-10T03:00:00Z"}
        await service.client.call(PUT, {"tenant": "default", "memories": [memory]})
        for session, zone, day in (("a", "America/New_York", "2026-01-09"), ("b", "Nowhere", "2026-01-10")):
            output = await service.hook("claude-code", prompt(MIGRATION, "1", session, timezone=zone))
            assert f"({day})" in context(output)


async def test_a_block_is_shown_once_until_the_context_is_compacted(url: str, tmp_path: Path) -> None:
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC, TUESDAY)
        assert "Alembic" in context(await service.hook("claude-code", prompt(MIGRATION, "1")))
        assert await service.hook("claude-code", prompt(MIGRATION, "2")) == {}
        for name in ("pre-compact", "post-compact"):
            event = {**event_of(f"claude-code/{name}"), "session_id": "s"}
            assert await service.hook("claude-code", event) == {}
        assert "Alembic" in context(await service.hook("claude-code", prompt(MIGRATION, "3")))


async def test_undelivered_memories_do_not_count_as_shown(url: str, tmp_path: Path) -> None:
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC)
        assert "Alembic" in context(await service.hook("codex", prompt(MIGRATION, "1"), commit=False))
        assert "Alembic" in context(await service.hook("codex", prompt(MIGRATION, "2")))


async def test_a_subagent_receives_the_memory_of_its_task(url: str, tmp_path: Path) -> None:
    tool = event_of("claude-code/pre-tool-use.agent")
    start = event_of("claude-code/subagent-start")
    session_id = tool["session_id"]
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC)
        assert await service.hook("claude-code", tool) == {}
        assert await service.shown(session_id) == {}
        answer = await service.ask({"host": "claude-code", "event": start})
        assert find_blocks(context(answer.body)) == [context(answer.body)]
        assert await service.shown(session_id) == {start["agent_id"]: []}
        assert answer.commit is not None
        await service.redis.eval(wire.COMMIT, 1, *answer.commit)
        assert await service.shown(session_id) == {start["agent_id"]: ["m0"]}
        assert await service.hook("claude-code", start) == {}, "its task was taken"
        main = prompt(MIGRATION, "1", session_id)
        assert "Alembic" in context(await service.hook("claude-code", main)), "the main agent has not seen it"


async def test_waiting_subagents_do_not_receive_each_others_memories(url: str, tmp_path: Path) -> None:
    start = {**event_of("claude-code/subagent-start"), "session_id": "s"}
    tool = {**event_of("claude-code/pre-tool-use.agent"), "session_id": "s"}
    other = {**tool, "tool_input": {**tool["tool_input"], "prompt": DEPLOYMENT}}
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC, TUESDAY)
        for event in (tool, other):
            await service.hook("claude-code", event)
        assert [await service.hook("claude-code", {**start, "agent_id": name}) for name in "ab"] == [{}, {}]
        await service.hook("claude-code", other)
        assert "Tuesdays" in context(await service.hook("claude-code", {**start, "agent_id": "c"}))


async def test_gobby_reports_how_many_memories_it_forgot(url: str, tmp_path: Path) -> None:
    recall, reset = event_of("gobby/recall"), event_of("gobby/reset")
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC)
        assert (await service.hook("gobby", {**recall, "turn_id": "1"}))["count"] == 1
        again = await service.hook("gobby", {**recall, "turn_id": "2"})
        assert again == {"injected": False, "count": 0, "filtered": 1}
        assert await service.hook("gobby", reset) == {"memory_tracking_reset": True, "previous_count": 1}
        assert (await service.hook("gobby", {**recall, "turn_id": "3"}))["count"] == 1


async def test_gobby_limits_number_and_importance(url: str, tmp_path: Path) -> None:
    recall = {**event_of("gobby/recall"), "session_id": "limits"}
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC)
        for least, count in ((0.9, 0), (0.1, 1)):
            found = await service.hook("gobby", {**recall, "turn_id": str(least), "min_importance": least, "limit": 1})
            assert (found["count"], found.get("filtered", 0)) == (count, 0)


async def test_events_cannot_leave_the_tenant_of_the_caller(url: str, tmp_path: Path) -> None:
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC, tenant="acme")
        assert await service.hook("codex", prompt(MIGRATION, "1")) == {}
        output = await service.hook("codex", prompt(MIGRATION, "1"), scope={"tenant": "acme"})
        assert "Alembic" in context(output)


async def test_a_doctor_session_only_sees_the_doctors_tenant(url: str, tmp_path: Path) -> None:
    async with open_service(url, tmp_path) as service:
        await service.put(ALEMBIC, tenant=DOCTOR_TENANT)
        await service.put(TUESDAY)
        output = await service.hook("codex", prompt(MIGRATION, "1", DOCTOR_SESSION + "1"), scope={"tenant": "acme"})
        assert "Alembic" in context(output)
        assert await service.hook("codex", prompt(DEPLOYMENT, "2", DOCTOR_SESSION + "1")) == {}


async def never(request: Any, deadline: Deadline) -> Any:
    raise AssertionError


def operations_that_must_not_run() -> HostOperations:
    own = OwnHandlers(INJECT.bind(never), SESSION_EVENT.bind(never))
    return HostOperations(own, MemorySubagents(), MemoryHostState(), lambda _: InjectionConfig(), lambda _: None)


@pytest.mark.parametrize("event", [None, [], "x", 7, {}, {"hook_event_name": "UserPromptSubmit"}])
async def test_malformed_events_return_the_hosts_empty_output(event: Any) -> None:
    operations = operations_that_must_not_run()
    for name, host in HOSTS.items():
        answer = await operations.hook(HostHookRequest(host=name, event=event), Deadline.after(1))
        assert answer == JsonObject(dict(host.nothing))


async def test_an_unknown_host_is_an_error_with_the_known_names() -> None:
    operations = operations_that_must_not_run()
    with pytest.raises(NotFound, match="unknown host 'emacs'; the hosts are claude-code, codex, gobby, nexus"):
        await operations.hook(HostHookRequest(host="emacs", event={}), Deadline.after(1))


async def test_a_failure_becomes_the_hosts_empty_output(tmp_path: Path) -> None:
    """Redis is down, so neither the ledger nor waiting tasks are available."""
    redis = connect(f"unix://{tmp_path}/nobody")
    settings = load_settings(None, data_dir=tmp_path, model="none", embedder="none", log_level="error")
    async with open_core(settings, redis=redis, with_model=False) as core:
        for name in ("post-compact", "pre-tool-use.agent", "subagent-start"):
            payload = {"host": "claude-code", "event": event_of(f"claude-code/{name}")}
            assert await LocalOperationClient(core.operations).ask(HOST_HOOK, payload, budget=2) == OperationAnswer({})
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


async def test_an_ambiguous_kind_is_usable_again_once_all_have_started(subagents: PendingSubagents) -> None:
    first, second, third = (SubagentTask(text) for text in "abc")
    await subagents.announce(KIND, first)
    await subagents.announce(KIND, second)
    assert await subagents.start(KIND) is None
    await subagents.announce(KIND, third)
    assert await subagents.start(KIND) is None
    assert await subagents.start(KIND) is None
    await subagents.announce(KIND, first)
    assert await subagents.start(KIND) == first


async def test_concurrent_subagents_never_receive_wrong_tasks(subagents: PendingSubagents) -> None:
    kinds = [SubagentKind("default", f"s{number}", "reviewer") for number in range(20)]

    async def life(kind: SubagentKind) -> SubagentTask | None:
        await subagents.announce(kind, SubagentTask(kind.session_id))
        return await subagents.start(kind)

    found = await asyncio.gather(*(life(kind) for kind in kinds))
    assert [task.prompt for task in found if task] == [kind.session_id for kind in kinds]


async def test_tasks_waiting_in_memory_are_bounded_and_expire() -> None:
    now = 0.0
    subagents = MemorySubagents(lambda: now)
    for number in range(MOST_KINDS + 1):
        await subagents.announce(SubagentKind("default", f"s{number}", "reviewer"), SubagentTask("x"))
    assert await subagents.start(SubagentKind("default", "s0", "reviewer")) is None
    assert await subagents.start(SubagentKind("default", "s1", "reviewer")) is not None
    now = WAIT_S
    assert await subagents.start(SubagentKind("default", "s2", "reviewer")) is None


async def test_tasks_waiting_in_redis_expire(url: str) -> None:
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


async def test_an_unreachable_redis_is_a_queue_error(tmp_path: Path) -> None:
    redis = connect(f"unix://{tmp_path}/nobody")
    with pytest.raises(QueueError, match="Redis cannot be reached"):
        await RedisSubagents(redis).start(KIND)
    await redis.aclose()
