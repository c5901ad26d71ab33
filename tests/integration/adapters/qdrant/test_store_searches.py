"""Several searches at once, sorted listings and filters."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from tests.support.real_servers import engines
from tests.support.store import CREATED, ENGINES, direction, memory, near, opened, query, stored
from worker.domain.errors import StoreError
from worker.domain.kinds import SortKey
from worker.domain.memory import Hit, MemoryFilter, MemoryScope, Relation, Replacement, Visibility
from worker.ports.store import MemoryStore

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

QUESTION = direction("question")
DAY = timedelta(days=1)


@pytest.fixture(params=engines(*ENGINES))
async def north(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[MemoryStore]:
    async with opened(request.param, tmp_path) as engine:
        await engine.tenant("south").put([stored(memory("alien", importance=1.0, entities=("Bell",)))])
        yield engine.tenant("north")


def ids(hits: list[Hit]) -> list[str]:
    return [hit.memory.id for hit in hits]


async def found(store: MemoryStore, where: MemoryFilter) -> set[str]:
    return set(ids(await store.search(query("bell", QUESTION, where))))


async def test_several_searches_at_once_answer_each_for_itself(north: MemoryStore) -> None:
    await north.put(
        [
            stored(memory("m1", "The bell hangs low", type="fact"), near(QUESTION, 0.9)),
            stored(memory("m2", "Kiln schedule", type="todo"), near(QUESTION, 0.2, "other")),
        ]
    )
    todo = MemoryFilter(types=(memory("x", type="todo").type,))
    both, kiln, narrowed, nothing = await north.search_many(
        [query("bell", QUESTION), query("kiln"), query("bell", QUESTION, todo), query("")]
    )
    assert both == await north.search(query("bell", QUESTION))
    assert (ids(kiln), ids(narrowed), nothing) == (["m2"], ["m2"], [])
    assert kiln[0].keyword is not None
    with pytest.raises(StoreError, match="nothing to search by"):
        await north.search_many([query(""), query("")])


async def test_each_search_of_several_has_its_own_limit(north: MemoryStore) -> None:
    await north.put([stored(memory(f"m{index}", f"bell number {index}")) for index in range(30)])
    few, many = await north.search_many([query("bell", limit=3), query("bell", limit=11)])
    assert (len(few), len(many)) == (3, 11)


async def test_what_changes_between_searches_is_found_as_it_is_now(north: MemoryStore) -> None:
    bell = memory("m1", "The bell hangs low", importance=0.1)

    async def seen() -> list[tuple[str, float, float]]:
        hits = await north.search(query("bell", QUESTION))
        similar = [float(np.dot(hit.vector, QUESTION)) for hit in hits if hit.vector is not None]
        return [
            (hit.memory.content, hit.memory.importance, pytest.approx(one, abs=1e-5))
            for hit, one in zip(hits, similar, strict=True)
        ]

    await north.put([stored(bell, near(QUESTION, 0.9))])
    assert await seen() == [("The bell hangs low", 0.1, 0.9)]
    revision = (await north.states(["m1"]))["m1"].revision
    assert await north.replace([Replacement(bell.model_copy(update={"importance": 0.7}), revision)]) == []
    assert await seen() == [("The bell hangs low", 0.7, 0.9)]
    await north.put([stored(bell.model_copy(update={"content": "The bell hangs high"}), near(QUESTION, 0.6))])
    assert await seen() == [("The bell hangs high", 0.1, 0.6)]
    await north.delete(["m1"])
    assert await seen() == []
    await north.put([stored(bell, near(QUESTION, 0.9))])
    assert await seen() == [("The bell hangs low", 0.1, 0.9)]


async def test_an_order_without_a_query(north: MemoryStore) -> None:
    await north.put(
        [
            stored(memory("old", importance=0.9)),
            stored(memory("new", importance=0.1, created_at=CREATED + DAY), near(QUESTION, 0.5)),
            stored(memory("undated", importance=0.5, created_at=None)),
            stored(memory("hidden", importance=1.0, scope=MemoryScope(user="other"))),
        ]
    )
    where = MemoryFilter(Visibility())
    recent = await north.ordered(where, SortKey.RECENT, limit=5)
    important = await north.ordered(where, SortKey.IMPORTANCE, limit=2)
    assert ids(recent) == ["new", "old", "undated"]
    assert ids(important) == ["old", "undated"]
    assert (recent[0].cosine, recent[0].keyword) == (None, None)
    assert recent[0].vector == pytest.approx(near(QUESTION, 0.5), abs=1e-6)


async def test_equal_places_of_an_order_are_cut_the_same_way_every_time(north: MemoryStore) -> None:
    same = [stored(memory(f"m{index}", importance=0.5)) for index in range(40)]
    await north.put(same)
    first = ids(await north.ordered(MemoryFilter(), SortKey.IMPORTANCE, limit=4))
    await north.put(list(reversed(same)))
    assert len(first) == 4
    assert ids(await north.ordered(MemoryFilter(), SortKey.IMPORTANCE, limit=4)) == first


async def test_a_search_is_narrowed_by_ids_channels_importance_and_names(north: MemoryStore) -> None:
    await north.put(
        [
            stored(memory("m1", channel="#rigs", importance=0.9, entities=("Mirela Oduya",))),
            stored(memory("m2", importance=0.3, entities=("Ødegård & Søn", "教育委員会"))),
        ]
    )
    assert await found(north, MemoryFilter(ids=("m2", "alien", "unknown"))) == {"m2"}
    assert await found(north, MemoryFilter(other_than=("m2", "unknown"))) == {"m1"}
    assert await found(north, MemoryFilter(channels=("#rigs",))) == {"m1"}
    assert await found(north, MemoryFilter(importance=0.9)) == {"m1"}
    assert await found(north, MemoryFilter(names=("oduya",))) == {"m1"}
    assert await found(north, MemoryFilter(names=("ødegard", "nobody"))) == {"m2"}
    assert await found(north, MemoryFilter(names=("教育委員会",))) == {"m2"}


async def test_times_are_those_of_noting_and_of_happening(north: MemoryStore) -> None:
    last_year = CREATED - 365 * DAY
    await north.put(
        [
            stored(memory("noted")),
            stored(memory("happened", created_at=last_year, occurred_at=CREATED)),
            stored(memory("around", created_at=CREATED - 3 * DAY, occurred_at=CREATED + 3 * DAY)),
            stored(memory("undated", created_at=None)),
        ]
    )
    where = MemoryFilter(since=CREATED - DAY, until=CREATED + DAY)
    assert await found(north, where) == {"noted", "happened"}
    assert await found(north, MemoryFilter(until=last_year)) == {"happened"}


async def test_superseded_memories_can_be_included(north: MemoryStore) -> None:
    gone = memory("old", superseded_by="new", superseded_at=CREATED + DAY)
    await north.put([stored(gone), stored(memory("expired", valid_until=CREATED)), stored(memory("new"))])
    later = CREATED + 2 * DAY
    assert await found(north, MemoryFilter(Visibility(valid_at=later))) == {"new"}
    assert await found(north, MemoryFilter(Visibility(valid_at=later, superseded=True))) == {"new", "old"}


async def test_memories_pointing_at_a_memory_are_found(north: MemoryStore) -> None:
    await north.put([stored(memory("m1")), stored(memory("m2", relations=(Relation(kind="part_of", target="m1"),)))])
    assert await found(north, MemoryFilter(pointing_at=("m1",))) == {"m2"}


@pytest.mark.parametrize(
    ("channels", "visible"),
    [
        (None, {"plain", "room", "mine"}),
        ((), {"plain", "mine"}),
        (("#a",), {"plain", "room", "mine"}),
        (("#b",), {"plain", "mine"}),
    ],
)
async def test_a_channels_memories_are_found_in_it(
    north: MemoryStore, channels: tuple[str, ...] | None, visible: set[str]
) -> None:
    mine = memory("mine", channel="#a", scope=MemoryScope(user="ada"))
    await north.put([stored(one) for one in (memory("plain"), memory("room", channel="#a"), mine)])
    assert await found(north, MemoryFilter(Visibility(users=("ada",), channels=channels))) == visible
    assert await north.count(MemoryFilter(Visibility(users=("ada",), channels=channels))) == len(visible)
