"""Listing a whole store, memories that point at a memory, and changes without new vectors, on both engines."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_servers import engines
from tests.support.store import CREATED, ENGINES, direction, memory, opened, profile, query, stored
from worker.domain.memory import Memory, MemoryFilter, MemoryType, Replacement
from worker.ports.store import StoreEngine
from worker.ports.store_record import embedder_record

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")


@pytest.fixture(params=engines(*ENGINES))
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreEngine]:
    async with opened(request.param, tmp_path) as engine:
        yield engine


async def test_a_listing_has_every_memory_of_every_tenant_once_with_its_vector(store: Any) -> None:
    for tenant in ("north", "south"):
        await store.tenant(tenant).put([stored(memory(f"m{n}", f"{tenant} {n}")) for n in range(7)])
    found, cursor = [], None
    while True:
        page = await store.listing(limit=4, cursor=cursor, vectors=True)
        assert len(page.entries) <= 4
        found += page.entries
        cursor = page.cursor
        if cursor is None:
            break
    assert sorted((one.tenant, one.memory.content) for one in found) == sorted(
        (tenant, f"{tenant} {n}") for tenant in ("north", "south") for n in range(7)
    )
    for one in found:
        assert one.dense == pytest.approx(direction(one.memory.content), abs=1e-6)
    assert (await store.listing(limit=1)).entries[0].dense is None


async def test_the_record_says_who_made_the_vectors(store: Any) -> None:
    await store.tenant("north").put([stored(memory("m1"))])
    record = await store.record()
    assert record.embedder == embedder_record(profile())


async def test_memories_pointing_at_a_memory_are_found_by_relation_and_successor(store: StoreEngine) -> None:
    north = store.tenant("north")
    relation = [{"kind": "about", "target": "m1"}]
    await north.put(
        [
            stored(memory("m1", superseded_by="m2", superseded_at=CREATED)),
            stored(memory("m2", type="todo", relations=relation)),
            stored(memory("m3", scope={"user": "u1"})),
        ]
    )

    async def found(where: MemoryFilter) -> list[str]:
        return sorted(one.id for one in (await north.scroll(where, limit=10)).memories)

    assert await found(MemoryFilter(pointing_at=("m1",))) == ["m2"]
    assert await found(MemoryFilter(pointing_at=("m2", "m9"))) == ["m1"]
    assert await found(MemoryFilter(pointing_at=("m1",), types=(MemoryType.FACT,))) == []
    assert await found(MemoryFilter(user="u1")) == ["m3"]
    assert await found(MemoryFilter(user="")) == ["m1", "m2"]


async def test_replacing_a_memory_alone_keeps_both_vectors_and_makes_nothing(store: StoreEngine) -> None:
    north = store.tenant("north")
    first = memory("m1", "The bell hangs on the larch beam")
    await north.put([stored(first)])
    amended = Memory.model_validate({**first.model_dump(), "importance": 0.9})
    revision = (await north.states(["m1"]))["m1"].revision
    changes = [Replacement(amended, revision), Replacement(memory("m2"), "a revision of something deleted")]
    assert await north.replace(changes) == ["m2"]
    assert await north.count() == 1
    (hit,) = await north.search(query("larch", direction(first.content)))
    assert hit.memory == amended
    assert hit.cosine == pytest.approx(1.0, abs=1e-5)
    assert hit.keyword is not None
    assert await north.replace([Replacement(first, revision)]) == ["m1"], "it has changed since"
    assert await north.replace([Replacement(stored(first), None)]) == ["m1"], "it is there"
    assert await north.get(["m1"]) == [amended]
