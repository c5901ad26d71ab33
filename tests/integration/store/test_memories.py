"""Writing memories: idempotent, versioned, superseding, forgotten for good, on the real store."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest

from tests.support.embedders import HashingEmbedder
from tests.support.service import NOW, as_memory, fact, open_service
from tests.support.store import ENCODER
from worker.domain.errors import EmbedderError, MemoryRejected, NotFound
from worker.domain.memory import HybridQuery, Memory, MemoryFilter, MemoryType, Visibility


async def put(service: Any, *memories: dict[str, Any]) -> Any:
    return await service.memory_service.put("t1", [as_memory(memory) for memory in memories])


async def one(service: Any, key: str) -> Memory:
    (memory,) = await service.memory_service.get("t1", [key])
    return memory


async def test_same_memory_again_changes_nothing(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        first = await put(service, fact("m1", "The gate is green"))
        second = await put(service, fact("m1", "The gate is green"))
        assert (first.created, second.unchanged) == (("m1",), ("m1",))
        assert await service.memory_service.count("t1") == 1


async def test_a_memory_stays_pinned_until_it_is_said_that_it_is_not(tmp_path: Path) -> None:
    async def again(service: Any, **fields: Any) -> bool:
        memory = as_memory({"content": "Ring twice", **fields})
        report = await service.memory_service.remember("t1", memory, now=NOW, keep_same="id" not in fields)
        (key,) = (*report.created, *report.updated, *report.unchanged)
        return (await one(service, key)).pinned

    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        assert [await again(service), await again(service, pinned=True), await again(service)] == [False, True, True]
        assert await again(service, id="m1", pinned=True)
        assert await again(service, id="m1", content="Ring three times")
        assert not await again(service, id="m1", content="Ring three times", pinned=False)


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
            page = await service.memory_service.page("t1", limit=10, cursor=cursor)
            seen.extend(memory.id for memory in page.memories)
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(seen) == sorted(f"m{n}" for n in range(25))
        assert await service.memory_service.forget("t1", ["m1", "m2", "gone"]) == 2
        assert await service.memory_service.count("t1") == 23


UPDATES_M1 = [{"kind": "updates", "target": "m1"}]


@pytest.mark.parametrize("order", list(permutations(["m1", "m2", "m3"])))
@pytest.mark.parametrize("together", [True, False])
async def test_a_successor_supersedes_its_target_in_whichever_order_they_come(
    tmp_path: Path, order: tuple[str, ...], together: bool
) -> None:
    chain = {
        "m1": fact("m1", "Relay 4"),
        "m2": fact("m2", "Terminal 11", relations=UPDATES_M1, created_at="2026-02-01T00:00:00Z"),
        "m3": fact("m3", "Terminal 12", relations=[{"kind": "supersedes", "target": "m2"}]),
    }
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        if together:
            await put(service, *(chain[key] for key in order))
        else:
            for key in order:
                await put(service, chain[key])
        successors = {key: (await one(service, key)).superseded_by for key in chain}
        assert successors == {"m1": "m2", "m2": "m3", "m3": None}
        again = await put(service, *(chain[key] for key in order))
        assert sorted(again.unchanged) == ["m1", "m2", "m3"]
        now = MemoryFilter(visibility=Visibility(valid_at=NOW))
        page = await service.memory_service.page("t1", limit=10, cursor=None, where=now)
        assert [memory.id for memory in page.memories] == ["m3"]


async def test_of_two_successors_the_younger_counts_in_either_order(tmp_path: Path) -> None:
    older = fact("m2", "Terminal 11", relations=UPDATES_M1, created_at="2026-02-01T00:00:00Z")
    younger = fact("m3", "Terminal 12", relations=UPDATES_M1, created_at="2026-03-01T00:00:00Z")
    for number, order in enumerate(permutations([fact("m1", "Relay 4"), older, younger])):
        async with open_service(tmp_path / str(number), embedder=HashingEmbedder()) as service:
            for memory in order:
                await put(service, memory)
            assert (await one(service, "m1")).superseded_by == "m3"


async def test_writing_it_again_without_a_date_keeps_the_first_date_and_embeds_nothing(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    dateless = Memory(id="m1", content="The gate is green")
    async with open_service(tmp_path, embedder=embedder) as service:
        await service.memory_service.put("t1", [dateless], now=NOW)
        later = await service.memory_service.put("t1", [dateless], now=NOW.replace(year=2027))
        assert later.unchanged == ("m1",)
        assert (await one(service, "m1")).created_at == NOW
        assert embedder.passages == ["The gate is green"]


async def test_update_keeps_the_other_fields_and_counts_versions(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, fact("m1", "Relay 4", importance=0.8, entities=["pump"]))
        changed = await service.memory_service.update("t1", "m1", {"content": "Relay 5"})
        assert (changed.content, changed.version, changed.importance, changed.entities) == (
            "Relay 5",
            2,
            0.8,
            ("pump",),
        )
        retyped = await service.memory_service.update("t1", "m1", {"type": "decision"})
        assert (retyped.type, retyped.version, retyped.content) == (MemoryType.DECISION, 2, "Relay 5")
        with pytest.raises(MemoryRejected, match="importance"):
            await service.memory_service.update("t1", "m1", {"importance": 7})
        with pytest.raises(NotFound):
            await service.memory_service.update("t1", "m9", {"content": "x"})
        with pytest.raises(NotFound):
            await service.memory_service.update("t2", "m1", {"content": "x"})


async def test_what_only_changes_around_the_text_keeps_its_vector_while_the_embedder_is_down(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_service(tmp_path, embedder=embedder) as service:
        await put(service, fact("m1", "Relay 4"), fact("m2", "Terminal 11"))
        embedder.fault = EmbedderError("down")
        await service.memory_service.update("t1", "m1", {"importance": 0.9})
        related = await service.memory_service.relate("t1", "m2", "supersedes", "m1")
        assert [relation.target for relation in related.relations] == ["m1"]
        assert (await one(service, "m1")).superseded_by == "m2"
        assert (await service.engine.health()).notes == ()


async def test_relating_twice_is_relating_once_and_needs_both(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, fact("m1", "Relay 4"), fact("m2", "Terminal 11"))
        for _ in range(2):
            await service.memory_service.relate("t1", "m1", "about", "m2")
        assert len((await one(service, "m1")).relations) == 1
        with pytest.raises(MemoryRejected):
            await service.memory_service.relate("t1", "m1", "about", "m1")
        with pytest.raises(NotFound):
            await service.memory_service.relate("t1", "m1", "about", "m9")


async def test_forgotten_is_gone_from_every_search_and_nothing_points_at_it(tmp_path: Path) -> None:
    embedder = HashingEmbedder()
    async with open_service(tmp_path, embedder=embedder) as service:
        await put(
            service,
            fact("m1", "The bell hangs on the larch beam", entities=["bell"]),
            fact("m2", "The bell hangs on the oak beam", entities=["bell"], relations=UPDATES_M1),
            fact("m3", "Ask the carpenter", relations=[{"kind": "about", "target": "m2"}]),
        )
        assert await service.memory_service.forget("t1", ["m2"]) == 1
        store = service.engine.tenant("t1")
        words = "The bell hangs on the oak beam"
        dense = await embedder.embed_query(words)
        queries = [
            HybridQuery(dense, None, MemoryFilter(), 10),
            HybridQuery(None, ENCODER.query(words), MemoryFilter(), 10),
            HybridQuery(dense, ENCODER.query(words), MemoryFilter(entities=("bell",)), 10),
        ]
        for query in queries:
            assert "m2" not in [hit.memory.id for hit in await store.search(query)]
        assert await store.get(["m2"]) == []
        assert "m2" not in [memory.id for memory in (await store.scroll(MemoryFilter(), limit=10)).memories]
        assert (await store.scroll(MemoryFilter(pointing_at=("m2",)), limit=10)).memories == ()
        former = await one(service, "m1")
        assert (former.superseded_by, former.superseded_at is None) == (None, False)
        valid = MemoryFilter(visibility=Visibility(valid_at=NOW))
        assert [memory.id for memory in (await store.scroll(valid, limit=10)).memories] == ["m3"]
        assert (await one(service, "m3")).relations == ()
        assert embedder.passages.count("Ask the carpenter") == 1


async def test_history_of_a_memory_goes_both_ways(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, *(fact(f"m{n}", f"Terminal {n}") for n in range(4)))
        for n in range(3):
            await service.memory_service.relate("t1", f"m{n + 1}", "updates", f"m{n}")
        await put(service, fact("x", "See there", relations=[{"kind": "about", "target": "m1"}]))
        shown = await service.memory_service.show("t1", "m1")
        assert [memory.id for memory in shown.earlier] == ["m0"]
        assert [memory.id for memory in shown.later] == ["m2", "m3"]
        assert [memory.id for memory in shown.related] == ["x"]
        with pytest.raises(NotFound):
            await service.memory_service.show("t1", "nobody")


async def test_a_circle_of_successors_ends(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, fact("m1", "Relay 4"), fact("m2", "Terminal 11", relations=UPDATES_M1))
        await service.memory_service.relate("t1", "m1", "updates", "m2")
        shown = await service.memory_service.show("t1", "m1")
        assert {memory.id for memory in (*shown.earlier, *shown.later)} == {"m2"}


async def test_listing_by_type_and_user(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, fact("m1", "one", type="todo"), fact("m2", "two", scope={"user": "u1"}), fact("m3", "three"))

        async def listed(**where: Any) -> list[str]:
            page = await service.memory_service.page("t1", limit=10, cursor=None, where=MemoryFilter(**where))
            return sorted(memory.id for memory in page.memories)

        assert await listed(types=(MemoryType.TODO,)) == ["m1"]
        assert await listed(user="u1") == ["m2"]
        assert await listed() == ["m1", "m2", "m3"]


async def test_secrets_are_masked_before_they_are_stored_when_that_is_asked_for(tmp_path: Path) -> None:
    secret = Memory(id="m1", content="The door's password: hunter22!")
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await service.memory_service.put("t1", [secret])
        assert "hunter22" in (await one(service, "m1")).content
        masked = await service.memory_service.put("t1", [secret], mask=True)
        assert masked.updated == ("m1",)
        assert (await one(service, "m1")).content == "The door's password: [masked]"
        assert (await service.memory_service.put("t1", [secret], mask=True)).unchanged == ("m1",)


async def test_what_replaces_a_memory_of_a_channel_is_told_only_there(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await put(service, fact("m1", "The board meets on Monday", channel="board"))
        again = Memory(id="m2", content="The board meets on Friday", relations=UPDATES_M1)
        await service.memory_service.remember("t1", again, now=NOW, keep_same=False)
        assert (await one(service, "m2")).channel == "board"
        assert (await one(service, "m1")).superseded_by == "m2"
