"""Writing memories: idempotent, versioned, superseding, on the real store."""

from pathlib import Path
from typing import Any

from tests.support.embedders import HashingEmbedder
from tests.support.service import as_memory, fact, open_service
from worker.errors import EmbedderError
from worker.models import Memory


async def put(service: Any, *memories: dict[str, Any]) -> Any:
    return await service.keeper.put("t1", [as_memory(memory) for memory in memories])


async def one(service: Any, key: str) -> Memory:
    (memory,) = await service.keeper.get("t1", [key])
    return memory


async def test_same_memory_again_changes_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        first = await put(service, fact("m1", "The gate is green"))
        second = await put(service, fact("m1", "The gate is green"))
        assert (first.created, second.unchanged) == (("m1",), ("m1",))
        assert await service.keeper.count("t1") == 1


async def test_changed_content_is_the_next_version(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, fact("m1", "The gate is green"))
        stored = await put(service, fact("m1", "The gate is red"))
        assert stored.updated == ("m1",)
        memory = await one(service, "m1")
        assert (memory.content, memory.version) == ("The gate is red", 2)


async def test_update_supersedes_what_it_names_within_a_batch_and_across(tmp_path: Path) -> None:
    updates = [{"kind": "updates", "target": "m1"}]
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, fact("m1", "Relay 4"), fact("m2", "Terminal 11", relations=updates))
        assert (await one(service, "m1")).superseded_by == "m2"
        successor = fact("m3", "Terminal 12", relations=[{"kind": "supersedes", "target": "m2"}])
        await put(service, successor)
        superseded = await one(service, "m2")
        assert superseded.superseded_by == "m3"
        assert superseded.superseded_at == as_memory(successor).created_at
        await put(service, fact("m1", "Relay 4"))
        assert (await one(service, "m1")).superseded_by == "m2"


async def test_memories_survive_an_embedder_that_is_down(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder(fault=EmbedderError("down"))) as service:
        stored = await put(service, fact("m1", "The gate is green"))
        assert (stored.created, stored.without_vector) == (("m1",), 1)
        assert (await one(service, "m1")).content == "The gate is green"


async def test_listing_goes_through_every_memory_once(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, *(fact(f"m{n}", f"fact {n}") for n in range(25)))
        seen: list[str] = []
        cursor = None
        while True:
            page = await service.keeper.page("t1", limit=10, cursor=cursor)
            seen.extend(memory.id for memory in page.memories)
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(seen) == sorted(f"m{n}" for n in range(25))
        assert await service.keeper.forget("t1", ["m1", "m2", "gone"]) == 2
        assert await service.keeper.count("t1") == 23
