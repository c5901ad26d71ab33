"""A deletion can be undone for ten minutes, on every store, and leaves nothing else that anybody could read."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hooks.queue import connect
from tests.support.real_servers import engines
from tests.support.service import NOW, as_memory, fact
from tests.support.valkey import running_valkey, sync_redis
from tests.support.writers import writers_on
from worker.adapters.local.deleted import MOST_KEPT, ProcessDeletedMemories
from worker.adapters.local.usage import FileUsage
from worker.adapters.redis.deleted import PREFIX, RedisDeletedMemories
from worker.domain.deadline import Deadline
from worker.domain.deleted import UNDO_S, DeletedMemory
from worker.domain.errors import NotFound, StoreError
from worker.operations.memories import MemoryOperations
from worker.operations.requests import ForgetRequest, UndoRequest
from worker.store.memories import MemoryService

KINDS = engines("edge", "rest", "server")
DEADLINE = Deadline.after(60)


class Side:
    """One of two processes that use a store."""

    def __init__(self, memories: MemoryService, operations: MemoryOperations) -> None:
        self.memories, self._operations = memories, operations

    async def put(self, *memories: dict[str, Any]) -> None:
        await self.memories.put("t1", [as_memory(one) for one in memories])

    async def all(self) -> dict[str, Any]:
        page = await self.memories.page("t1", limit=50, cursor=None)
        return {memory.id: memory for memory in page.memories}

    async def forget(self, *ids: str, permanent: bool = False) -> tuple[int, int]:
        done = await self._operations.forget(ForgetRequest(tenant="t1", ids=ids, permanent=permanent), DEADLINE)
        return done.forgotten, done.undo_s

    async def undo(self, *ids: str, tenant: str = "t1") -> list[str]:
        done = await self._operations.undo(UndoRequest(tenant=tenant, ids=ids), DEADLINE)
        return sorted(memory.id for memory in done.restored)


@asynccontextmanager
async def sides_of(kind: str, folder: Path) -> AsyncIterator[tuple[Side, Side]]:
    """Open an embedded store, which one process owns, or a server with a Redis that two workers share."""
    async with AsyncExitStack() as stack:
        first, second = await stack.enter_async_context(writers_on(kind, folder))
        usage = FileUsage(folder / "usage.json")
        if kind == "edge":
            kept: Any = ProcessDeletedMemories()
            operations = [MemoryOperations(one, usage, lambda: NOW, deleted=kept) for one in (first, second)]
        else:
            redis: Any = connect(stack.enter_context(running_valkey()).url)
            stack.push_async_callback(redis.aclose)
            kept = [RedisDeletedMemories(redis) for _ in range(2)]
            operations = [
                MemoryOperations(one, usage, lambda: NOW, deleted=own)
                for one, own in zip((first, second), kept, strict=True)
            ]
        yield Side(first, operations[0]), Side(second, operations[1])


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_deleted_comes_back_as_it_was_with_every_reference(kind: str, tmp_path: Path) -> None:
    links = [{"kind": "supersedes", "target": "old"}, {"kind": "about", "target": "pier"}]
    async with sides_of(kind, tmp_path) as (side, other):
        await side.put(
            fact("old", "The gate is green"),
            fact("pier", "The pier is long"),
            fact("new", "The gate is red", relations=links, importance=0.9),
            fact("near", "The gate squeaks", relations=[{"kind": "about", "target": "new"}]),
        )
        before = await side.all()
        assert await side.forget("new", "unknown") == (1, UNDO_S)
        gone = await other.all()
        assert "new" not in gone
        assert (gone["near"].relations, gone["old"].superseded_by) == ((), None)
        assert await other.undo() == ["new"]
        assert await side.all() == before
        with pytest.raises(NotFound, match="nothing to undo"):
            await side.undo()


@pytest.mark.parametrize("kind", KINDS)
async def test_two_undos_at_once_restore_a_memory_once(kind: str, tmp_path: Path) -> None:
    async with sides_of(kind, tmp_path) as (side, other):
        await side.put(fact("m1", "The gate is green"))
        await side.forget("m1")
        answers = await asyncio.gather(side.undo("m1"), other.undo("m1"), return_exceptions=True)
        assert ["m1"] in answers
        assert sum(isinstance(one, NotFound) for one in answers) == 1
        assert list(await side.all()) == ["m1"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_stored_again_meanwhile_stays(kind: str, tmp_path: Path) -> None:
    async with sides_of(kind, tmp_path) as (side, _):
        await side.put(fact("m1", "The gate is green"), fact("m2", "The pier is long"))
        await side.forget("m1", "m2")
        await side.put(fact("m1", "The gate is grey"))
        assert await side.undo() == ["m2"]
        assert (await side.all())["m1"].content == "The gate is grey"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_successor_that_came_meanwhile_stays_the_successor(kind: str, tmp_path: Path) -> None:
    links = [{"kind": "supersedes", "target": "old"}]
    async with sides_of(kind, tmp_path) as (side, _):
        await side.put(fact("old", "The gate is green"), fact("new", "The gate is red", relations=links))
        await side.forget("new")
        await side.put(fact("newest", "The gate is blue", relations=links, created_at=NOW.replace(year=2031)))
        assert await side.undo() == ["new"]
        assert (await side.all())["old"].superseded_by == "newest"


@pytest.mark.parametrize("kind", KINDS)
async def test_each_deletion_is_undone_by_its_ids_and_only_in_its_tenant(kind: str, tmp_path: Path) -> None:
    async with sides_of(kind, tmp_path) as (side, _):
        await side.put(fact("m1", "The gate is green"), fact("m2", "The pier is long"), fact("m3", "The sea is grey"))
        await side.forget("m1", "m2")
        await side.forget("m3")
        with pytest.raises(NotFound):
            await side.undo("m1", tenant="t2")
        assert await side.undo("m1") == ["m1"]
        assert await side.undo() == ["m3"]
        assert await side.undo("m2") == ["m2"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_permanent_deletion_keeps_nothing_not_even_of_an_earlier_one(kind: str, tmp_path: Path) -> None:
    async with sides_of(kind, tmp_path) as (side, _):
        await side.put(fact("m1", "The gate is green"), fact("m2", "The pier is long"))
        assert await side.forget("m1", permanent=True) == (1, 0)
        await side.forget("m2")
        assert await side.forget("m2", permanent=True) == (1, 0)
        for ids in ((), ("m1",), ("m2",)):
            with pytest.raises(NotFound):
                await side.undo(*ids)


async def test_an_undo_that_fails_can_be_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def failing(*_: Any) -> Any:
        raise StoreError("the disk is full")

    async with sides_of("edge", tmp_path) as (side, _):
        await side.put(fact("m1", "The gate is green"))
        await side.forget("m1")
        with monkeypatch.context() as patch:
            patch.setattr(side.memories, "restore", failing)
            with pytest.raises(StoreError):
                await side.undo()
        assert await side.undo() == ["m1"]


async def test_without_a_service_nothing_is_kept(tmp_path: Path) -> None:
    async with writers_on("edge", tmp_path) as (memories, _):
        side = Side(memories, MemoryOperations(memories, FileUsage(tmp_path / "usage.json"), lambda: NOW))
        await side.put(fact("m1", "The gate is green"))
        assert await side.forget("m1") == (1, 0)
        with pytest.raises(NotFound, match="nothing to undo"):
            await side.undo("m1")


def deleted(key: str) -> DeletedMemory:
    return DeletedMemory(memory=as_memory(fact(key, "The gate is green")))


async def test_redis_purges_what_is_kept_when_its_time_ends() -> None:
    with running_valkey() as server, sync_redis(server.url) as client:
        redis: Any = connect(server.url)
        try:
            await RedisDeletedMemories(redis).keep("t1", [deleted("m1"), deleted("m2")])
        finally:
            await redis.aclose()
        lives = [int(client.ttl(key)) for key in client.scan_iter()]  # type: ignore[arg-type]
        assert len(lives) == 3
        assert all(0 < life <= UNDO_S for life in lives)
        assert all(b"m1" not in key for key in client.scan_iter(PREFIX + "*"))


async def test_a_process_purges_what_it_keeps_when_its_time_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("worker.adapters.local.deleted.UNDO_S", 0.05)
    kept = ProcessDeletedMemories(lambda: now)
    await kept.keep("t1", [deleted("m1")])
    await kept.keep("t2", [deleted("m1")])
    now = 1.0
    await asyncio.sleep(0.3)
    assert (kept._kept, kept._latest) == ({}, {})
    now = 0.0
    assert await kept.take("t1", ["m1"]) == await kept.take("t1", []) == []


async def test_a_process_keeps_a_bounded_number() -> None:
    kept = ProcessDeletedMemories()
    for number in range(0, MOST_KEPT + 200, 200):
        await kept.keep("t1", [deleted(f"m{one}") for one in range(number, number + 200)])
    assert len(kept._kept) == MOST_KEPT
    assert await kept.take("t1", ["m0"]) == []
