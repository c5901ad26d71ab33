"""Upkeep in a service: what it finds, changes, leaves alone, takes back, and goes on with after an interruption."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import Reason
from hooks.queue import connect
from tests.support.operations import open_operations
from tests.support.real_servers import engines, qdrant_server
from tests.support.valkey import forget
from worker.adapters.redis.upkeep import RedisUpkeepRuns
from worker.adapters.redis.usage import RedisUsage
from worker.bootstrap import upkeep as upkeep_making
from worker.bootstrap.core import open_core
from worker.domain.errors import MemoryRejected, NotFound, OperationError, QueueError
from worker.domain.upkeep import UpkeepMode, UpkeepRun
from worker.operations.background_upkeep import BackgroundUpkeep
from worker.operations.client import OperationClient
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import (
    CAPTURE_SHOW,
    EXPORT,
    FORGET,
    PROPOSAL_ACCEPT,
    PROPOSAL_REJECT,
    PROPOSALS,
    PUT,
    RECALL,
    SHOW,
    UPDATE,
    UPKEEP,
    UPKEEP_SHOW,
    UPKEEP_UNDO,
)
from worker.settings.injection import load_settings
from worker.store.memories import MemoryService
from worker.upkeep import runs as upkeep_runs
from worker.upkeep.planning import UpkeepPlanner
from worker.upkeep.scan import Scan

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

OLD, NEW = "2025-01-01T00:00:00Z", "2025-06-01T00:00:00Z"
SISTER = {
    "id": "old",
    "content": "My sister Mia lives in Zürich",
    "created_at": OLD,
    "entities": ["Mia"],
    "cues": ["where does my sister live?"],
    "source": "notes.md",
    "importance": 0.8,
    "relations": [{"kind": "about", "target": "city"}],
}
AGAIN = {"id": "new", "content": "my sister  Mia lives in Zürich", "created_at": NEW}
CITY = {"id": "city", "content": "Zürich is the largest city of Switzerland", "created_at": OLD}
EXPIRED = {"id": "pass", "content": "The visitor pass opens door B", "created_at": OLD, "valid_until": NEW}


@pytest.fixture
def url(valkey: str) -> Iterator[str]:
    yield valkey
    forget(valkey)


@pytest.fixture
async def client(url: str, tmp_path: Path) -> AsyncIterator[OperationClient]:
    async with open_operations(url, tmp_path) as opened:
        yield opened


async def put(client: OperationClient, *memories: dict[str, Any], tenant: str = "default") -> None:
    await client.call(PUT, {"tenant": tenant, "memories": list(memories)})


async def ran(client: OperationClient, *, apply: bool = False, tenant: str = "default") -> dict[str, Any]:
    """Start a run and wait for its end."""
    started = (await client.call(UPKEEP, {"tenant": tenant, "apply": apply}))["run"]
    return await ended(client, started["id"], tenant)


async def ended(client: OperationClient, run_id: str, tenant: str = "default") -> dict[str, Any]:
    end = time.monotonic() + 30
    while True:
        report = await client.call(UPKEEP_SHOW, {"tenant": tenant, "id": run_id})
        run: dict[str, Any] = report["run"]
        if run["state"] != "running":
            return run
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


async def stored(client: OperationClient, tenant: str = "default") -> dict[str, dict[str, Any]]:
    page = await client.call(EXPORT, {"tenant": tenant, "limit": 200})
    return {one["id"]: one for one in page["memories"]}


def found(run: dict[str, Any]) -> list[tuple[str, str, list[str]]]:
    return [(step["kind"], step["memory"], step["others"]) for step in run["steps"]]


async def proposed(client: OperationClient) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a run and its proposal that the memory m5 replaces m4."""
    for number, at in ((4, OLD), (5, NEW)):
        await put(client, {"id": f"m{number}", "content": f"The backup runs at {number}", "created_at": at})
    run = await ran(client, apply=True)
    (waiting,) = (await client.call(PROPOSALS, {}))["proposals"]
    return run, waiting


@pytest.mark.parametrize("engine", engines("edge", "rest", "server"))
async def test_duplicates_become_one_and_a_run_is_undone_after_a_restart(url: str, tmp_path: Path, engine: str) -> None:
    async with qdrant_server(engine) as server:
        where = {} if engine == "edge" else {"qdrant_url": server.url, "collection": server.name}
        async with open_operations(url, tmp_path, **where) as client:
            await put(client, CITY, SISTER, AGAIN, EXPIRED)
            before = await stored(client)
            dry = await ran(client)
            assert found(dry) == [("close", "pass", []), ("merge", "new", ["old"])]
            assert (dry["memories"], await stored(client)) == (4, before)
            run = await ran(client, apply=True)
            assert {step["state"] for step in run["steps"]} == {"done"}
            after = await stored(client)
            kept = after["new"]
            assert (kept["created_at"], kept["entities"], kept["importance"]) == (OLD, ["Mia"], 0.8)
            assert (kept["source"], [cue["text"] for cue in kept["cues"]]) == (
                "notes.md",
                ["where does my sister live?"],
            )
            assert {"kind": "about", "target": "city"} in kept["relations"]
            assert after["old"]["superseded_by"] == "new"
            assert after["pass"]["superseded_at"] == NEW
            shown = await client.call(SHOW, {"id": "new"})
            assert [one["id"] for one in shown["earlier"]] == ["old"]
            hits = (await client.call(RECALL, {"query": "where does Mia live?"}))["memories"]
            assert "old" not in [hit["id"] for hit in hits]
            assert found(await ran(client, apply=True)) == []
        async with open_operations(url, tmp_path, **where) as client:
            undone = await client.call(UPKEEP_UNDO, {"id": run["id"]})
            assert undone["state"] == "undone"
            assert await stored(client) == before
            assert found(await ran(client, apply=True)) == []


async def test_a_duplicate_of_a_memory_that_was_deleted_since_holds_again(client: OperationClient) -> None:
    await put(client, SISTER, AGAIN)
    run = await ran(client, apply=True)
    await client.call(FORGET, {"ids": ["new"]})
    assert (await stored(client))["old"]["superseded_at"] is not None
    await client.call(UPKEEP_UNDO, {"id": run["id"]})
    assert (await stored(client))["old"].get("superseded_at") is None


async def test_only_what_has_the_same_owner_and_says_the_same_is_merged(client: OperationClient) -> None:
    text = "The nightly backup runs on the small server"
    others = [{"scope": {"user": "hana"}}, {"scope": {"agent": "cook"}}, {"scope": {"project": "p"}}, {"channel": "c"}]
    for place, fields in enumerate([{}, *others]):
        await put(client, {"id": f"m{place}", "content": text, **fields})
    await put(client, {"id": "number", "content": "Room 12 is locked"}, {"id": "other", "content": "Room 14 is locked"})
    await put(client, {"id": "yes", "content": "Tom eats nuts"}, {"id": "no", "content": "Tom does not eat nuts"})
    await put(client, {"id": "todo", "content": text, "type": "todo"})
    await put(client, {"id": "may", "content": "Lunch with Ana", "occurred_at": OLD})
    await put(client, {"id": "june", "content": "Lunch with Ana", "occurred_at": NEW})
    await put(client, {"id": "elsewhere", "content": text}, tenant="acme")
    assert found(await ran(client, apply=True)) == []


async def test_what_others_change_meanwhile_is_left(client: OperationClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await put(client, SISTER, AGAIN)
    change, first = MemoryService.change, True

    async def edited_before(self: MemoryService, tenant: str, changes: Any) -> Any:
        nonlocal first
        if first:
            first = False
            await client.call(UPDATE, {"id": "old", "changes": {"content": "My sister Mia moved to Oslo"}})
        return await change(self, tenant, changes)

    monkeypatch.setattr(MemoryService, "change", edited_before)
    run = await ran(client, apply=True)
    assert [step["state"] for step in run["steps"]] == ["skipped"]
    after = await stored(client)
    assert after["old"]["content"] == "My sister Mia moved to Oslo"
    assert [after[key].get("superseded_by") for key in ("old", "new")] == [None, None]


async def test_a_memory_that_gets_another_owner_after_it_was_read_is_left(
    client: OperationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    four = {"id": "four", "content": "The nightly backup runs at 4", "created_at": OLD}
    five = {"id": "five", "content": "The nightly backup runs at 5", "created_at": NEW}
    await put(client, SISTER, AGAIN, four, five)
    scan = UpkeepPlanner._scan

    async def moved_after(self: UpkeepPlanner, run: UpkeepRun, **more: Any) -> Scan:
        read = await scan(self, run, **more)
        for key in ("old", "four"):
            await client.call(UPDATE, {"id": key, "changes": {"scope": {"user": "hana"}}})
        return read

    monkeypatch.setattr(UpkeepPlanner, "_scan", moved_after)
    assert found(await ran(client, apply=True)) == []
    assert (await stored(client))["new"].get("source") is None


async def test_a_run_that_was_interrupted_goes_on_and_repeats_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = [{"id": f"{kind}{n}", "content": f"Barge {n} was sold"} for n in range(30) for kind in ("a", "b")]
    changes = 0
    change = MemoryService.change

    async def counted(self: MemoryService, tenant: str, given: Any) -> Any:
        nonlocal changes
        changes += 1
        if changes == 45:
            raise QueueError(Reason.QUEUE_UNAVAILABLE, "Redis is unreachable")
        return await change(self, tenant, given)

    monkeypatch.setattr(MemoryService, "change", counted)
    async with open_operations(url, tmp_path) as client:
        await put(client, *pairs)
        failed = await ran(client, apply=True)
        assert (failed["state"], len(failed["steps"])) == ("failed", 30)
    async with open_operations(url, tmp_path) as client:
        run = await ran(client, apply=True)
        assert (run["id"], run["state"]) == (failed["id"], "done")
        after = await stored(client)
        assert sum(one.get("superseded_by") is not None for one in after.values()) == 30
        assert all(len(one["relations"]) == 1 for one in after.values() if "superseded_by" not in one)
        assert {step["state"] for step in run["steps"]} == {"done"}


async def test_a_run_whose_worker_was_killed_is_taken_up_by_another(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_runs, "LEASE_S", 1.0)
    monkeypatch.setattr(upkeep_making, "BackgroundUpkeep", lambda parts: BackgroundUpkeep(parts, every=0.05))
    reached, never = asyncio.Event(), asyncio.Event()
    change = MemoryService.change

    async def held(self: MemoryService, tenant: str, given: Any) -> Any:
        if "new" in given:
            reached.set()
            await never.wait()
        return await change(self, tenant, given)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryService, "change", held)
        async with open_operations(url, tmp_path) as client:
            await put(client, SISTER, AGAIN)
            started = (await client.call(UPKEEP, {"apply": True}))["run"]
            await reached.wait()
    async with open_operations(url, tmp_path) as client:
        run = await ended(client, started["id"])
        assert [step["state"] for step in run["steps"]] == ["done"]
        after = await stored(client)
        assert (after["old"]["superseded_by"], after["new"]["created_at"]) == ("new", OLD)


async def test_a_changed_value_is_proposed_and_decided_on(client: OperationClient) -> None:
    old = {"id": "four", "content": "The nightly backup runs at 4", "created_at": OLD}
    new = {"id": "five", "content": "The nightly backup runs at 5", "created_at": NEW}
    await put(
        client, old, new, {"id": "s1", "content": "Shelf 1 holds nuts"}, {"id": "s2", "content": "Shelf 2 holds nuts"}
    )
    assert found(await ran(client)) == [("propose", "five", ["four"])]
    assert (await client.call(PROPOSALS, {}))["proposals"] == []
    run = await ran(client, apply=True)
    (waiting,) = (await client.call(PROPOSALS, {}))["proposals"]
    assert (waiting["change"]["memory"]["content"], waiting["replaces"]) == (new["content"], old["content"])
    assert found(await ran(client, apply=True)) == []
    accepted = await client.call(PROPOSAL_ACCEPT, {"id": waiting["id"]})
    assert accepted == {"id": "five", "stored": "replaced"}
    assert (await stored(client))["four"]["superseded_by"] == "five"
    await client.call(UPKEEP_UNDO, {"id": run["id"]})
    after = await stored(client)
    assert (after["four"].get("superseded_by"), after["five"].get("relations", [])) == (None, [])
    assert found(await ran(client, apply=True)) == []


async def test_a_replaced_value_holds_again_although_the_newer_one_was_deleted_since(client: OperationClient) -> None:
    run, waiting = await proposed(client)
    await client.call(PROPOSAL_ACCEPT, {"id": waiting["id"]})
    await client.call(FORGET, {"ids": ["m5"]})
    assert (await stored(client))["m4"]["superseded_at"] is not None
    await client.call(UPKEEP_UNDO, {"id": run["id"]})
    assert (await stored(client))["m4"].get("superseded_at") is None


@pytest.mark.parametrize("other", ["reject", "undo"])
async def test_a_value_accepted_while_it_is_rejected_or_undone_does_not_replace(
    client: OperationClient, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    run, waiting = await proposed(client)
    relate = MemoryService.relate

    async def decided_meanwhile(self: MemoryService, *given: str) -> Any:
        done = await relate(self, *given)
        operation, key = (PROPOSAL_REJECT, waiting["id"]) if other == "reject" else (UPKEEP_UNDO, run["id"])
        await client.call(operation, {"id": key})
        return done

    monkeypatch.setattr(MemoryService, "relate", decided_meanwhile)
    with pytest.raises(NotFound, match="decided on"):
        await client.call(PROPOSAL_ACCEPT, {"id": waiting["id"]})
    after = await stored(client)
    assert (after["m4"].get("superseded_by"), after["m5"].get("relations", [])) == (None, [])
    (change,) = (await client.call(CAPTURE_SHOW, {"id": run["id"]}))["changes"]
    assert change["stored"] == ("rejected" if other == "reject" else "undone")


async def test_two_who_accept_a_value_at_the_same_time_agree(client: OperationClient) -> None:
    _, waiting = await proposed(client)
    both = (client.call(PROPOSAL_ACCEPT, {"id": waiting["id"]}) for _ in range(2))
    done = await asyncio.gather(*both, return_exceptions=True)
    assert {"id": "m5", "stored": "replaced"} in done
    assert (await stored(client))["m4"]["superseded_by"] == "m5"


async def test_every_proposal_of_a_long_run_waits(client: OperationClient) -> None:
    for number in range(15):
        await put(client, *({"id": f"{kind}{number}", "content": f"Barge {number} was sold"} for kind in "ab"))
    tools = ("lathe", "kiln", "wheel", "press", "glaze", "saw", "oven", "forge")
    for tool in tools:
        for hour, at in ((4, OLD), (5, NEW)):
            await put(client, {"id": f"{tool}{hour}", "content": f"The {tool} starts at {hour}", "created_at": at})
    run = await ran(client, apply=True)
    assert [step["state"] for step in run["steps"]] == ["done"] * (15 + len(tools))
    assert len((await client.call(PROPOSALS, {}))["proposals"]) == len(tools)


async def test_a_rejected_change_of_value_is_not_proposed_again_and_both_stay(client: OperationClient) -> None:
    _, waiting = await proposed(client)
    await client.call(UPDATE, {"id": "m5", "changes": {"content": "The backup runs at 6"}})
    with pytest.raises(MemoryRejected, match="changed meanwhile"):
        await client.call(PROPOSAL_ACCEPT, {"id": waiting["id"]})
    await client.call(UPDATE, {"id": "m5", "changes": {"content": "The backup runs at 5"}})
    await client.call(PROPOSAL_REJECT, {"id": waiting["id"]})
    assert found(await ran(client, apply=True)) == []
    again = {"id": "again", "content": "The backup runs at 5"}
    assert (await client.call(PUT, {"memories": [again]}))["rejected_before"] == 0


async def test_a_memory_whose_validity_is_extended_holds_again(client: OperationClient) -> None:
    await put(client, EXPIRED)
    await ran(client, apply=True)
    await client.call(UPDATE, {"id": "pass", "changes": {"valid_until": "2999-01-01T00:00:00Z"}})
    assert (await stored(client))["pass"].get("superseded_at") is None


async def test_what_is_given_often_and_never_used_is_listed(client: OperationClient, url: str) -> None:
    await put(client, *({"id": key, "content": f"About {key}"} for key in ("idle", "useful", "rare")))
    redis = connect(url)
    usage = RedisUsage(redis)
    for number in range(6):
        used = {"idle": False, "useful": number == 0, "gone": False} | ({"rare": False} if number < 2 else {})
        await usage.count("default", f"r{number}", used, datetime.now(UTC))
    await redis.aclose()
    assert (await ran(client))["unused"] == [{"id": "idle", "injected": 6}]


async def test_one_run_at_a_time_and_nothing_to_undo_in_a_report(client: OperationClient, url: str) -> None:
    redis = connect(url)
    runs = RedisUpkeepRuns(redis)
    dry = await ran(client)
    with pytest.raises(OperationError, match="only made a report"):
        await client.call(UPKEEP_UNDO, {"id": dry["id"]})
    with pytest.raises(NotFound):
        await client.call(UPKEEP_SHOW, {"id": "unknown"})
    with pytest.raises(NotFound):
        await client.call(UPKEEP_SHOW, {"tenant": "acme", "id": dry["id"]})
    assert await runs.lead("another", upkeep_runs.timedelta(seconds=30))
    with pytest.raises(OperationError, match="another run"):
        await client.call(UPKEEP, {})
    await redis.aclose()


async def test_a_run_may_follow_at_once_on_one_that_is_shown_as_ended(
    client: OperationClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = RedisUpkeepRuns.release

    async def later(self: RedisUpkeepRuns, worker: str) -> None:
        await asyncio.sleep(0.3)
        await release(self, worker)

    monkeypatch.setattr(RedisUpkeepRuns, "release", later)
    first = await ran(client)
    assert (await ran(client))["id"] != first["id"]


async def test_the_nightly_run_is_made_once_for_every_tenant(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep_making, "BackgroundUpkeep", lambda parts: BackgroundUpkeep(parts, every=0.05))
    async with open_operations(url, tmp_path) as client:
        for tenant in ("default", "acme"):
            await put(client, SISTER, AGAIN, tenant=tenant)
    nightly = {"upkeep": UpkeepMode.APPLY, "upkeep_hour": datetime.now(UTC).hour}
    async with open_operations(url, tmp_path, **nightly) as client:
        end = time.monotonic() + 30
        for tenant in ("default", "acme"):
            while "superseded_by" not in (await stored(client, tenant))["old"]:
                assert time.monotonic() < end
                await asyncio.sleep(0.05)
        run = (await client.call(UPKEEP_SHOW, {"tenant": "acme"}))["run"]
        assert (run["nightly"], run["apply"]) == (True, True)


async def test_without_a_service_it_says_what_to_do(tmp_path: Path) -> None:
    settings = load_settings(None, data_dir=tmp_path, log_level="error", embedder="none")
    async with open_core(settings, with_model=False) as core:
        with pytest.raises(OperationError, match="meeseeks start"):
            await LocalOperationClient(core.operations).call(UPKEEP, {})
