"""Tests that every engine of the memory store must pass, and comparisons of the engines."""

import asyncio
import math
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import pytest

from tests.support.real_servers import engines
from tests.support.store import CREATED, DIMENSION, ENGINES, direction, memory, near, opened, query, stored
from worker.domain.cues import CueVectors
from worker.domain.errors import StoreError
from worker.domain.memory import (
    Hit,
    MemoryFilter,
    MemoryScope,
    MemoryType,
    Replacement,
    StoredMemory,
    Vector,
    Visibility,
)
from worker.domain.vectors import packed
from worker.ports.store import MemoryStore, StoreEngine, WholeStore

pytestmark = pytest.mark.filterwarnings("ignore:Payload indexes have no effect")

QUESTION = direction("question")


@pytest.fixture(params=engines(*ENGINES))
async def engine(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoreEngine]:
    async with opened(request.param, tmp_path) as store:
        yield store


@pytest.fixture
def north(engine: StoreEngine) -> MemoryStore:
    return engine.tenant("north")


def ids(hits: list[Hit]) -> list[str]:
    return [hit.memory.id for hit in hits]


async def found(store: MemoryStore, text: str, where: MemoryFilter | None = None) -> set[str]:
    """Return the ids found by either search."""
    return set(ids(await store.search(query(text, QUESTION, where))))


async def test_a_memory_is_found_unchanged_by_both_searches(north: MemoryStore) -> None:
    item = memory("m1", type="event", entities=("Bell",), occurred_at=CREATED, channel="dm", version=3)
    vector = near(QUESTION, 0.8)
    await north.put(
        [stored(item, vector), stored(memory("m2", "Nobody keeps bees here"), near(QUESTION, 0.1, "other"))]
    )
    first, second = await north.search(query("Which beam carries the bell?", QUESTION))
    assert first.memory == item
    assert first.cosine == pytest.approx(0.8, abs=1e-5)
    assert first.keyword is not None
    assert first.keyword > 0.0
    assert first.vector == pytest.approx(vector, abs=1e-6)
    assert (second.memory.id, second.keyword) == ("m2", None)
    assert second.cosine == pytest.approx(0.1, abs=1e-5)


async def test_stored_vectors_come_back_with_unit_length(north: MemoryStore) -> None:
    long = tuple(7.0 * value for value in near(QUESTION, 0.6))
    await north.put([stored(memory("m1"), long)])
    (hit,) = await north.search(query(dense=tuple(3.0 * value for value in QUESTION)))
    assert hit.cosine == pytest.approx(0.6, abs=1e-5)
    assert hit.vector is not None
    assert math.hypot(*hit.vector) == pytest.approx(1.0, abs=1e-5)


async def test_a_hit_of_keyword_search_alone_gets_its_exact_cosine(north: MemoryStore) -> None:
    crowd = [stored(memory(f"c{index}", f"crowd {index}"), near(QUESTION, 0.9, f"c{index}")) for index in range(5)]
    await north.put([*crowd, stored(memory("far", "lighthouse keeper"), near(QUESTION, -0.4))])
    hits = await north.search(query("lighthouse", QUESTION, limit=3))
    assert len(hits) == 4
    assert hits[3].memory.id == "far"
    assert hits[3].cosine == pytest.approx(-0.4, abs=1e-5)
    assert all(hit.keyword is None for hit in hits[:3])


async def test_the_limit_applies_to_each_search(north: MemoryStore) -> None:
    await north.put([stored(memory(f"m{index}", f"bell number {index}")) for index in range(30)])
    assert len(await north.search(query(dense=QUESTION, limit=7))) == 7
    assert len(await north.search(query("bell", limit=7))) == 7


async def test_equal_scores_are_cut_the_same_way_every_time(north: MemoryStore) -> None:
    same = [stored(memory(f"m{index}"), near(QUESTION, 0.7)) for index in range(100)]
    await north.put(same)
    first = await north.search(query("bell", QUESTION, limit=10))
    assert len(first) == 10
    assert all(hit.vector is not None and hit.keyword is not None for hit in first)
    await north.put(list(reversed(same)))
    assert ids(await north.search(query("bell", QUESTION, limit=10))) == ids(first)
    assert ids(await north.search(query("bell", limit=10))) == ids(first)
    assert ids(await north.search(query(dense=QUESTION, limit=10))) == ids(first)


async def test_memories_without_a_vector_or_without_terms_can_be_stored(north: MemoryStore) -> None:
    bare = stored(memory("bare", "kiln schedule"), bare=True)
    wordless = stored(memory("wordless", "🙂"), near(QUESTION, 0.9))
    await north.put([bare, wordless, stored(memory("nothing", "🙃"), bare=True)])
    hits = {hit.memory.id: hit for hit in await north.search(query("kiln", QUESTION))}
    assert set(hits) == {"bare", "wordless"}
    assert (hits["bare"].cosine, hits["bare"].vector) == (None, None)
    assert hits["wordless"].keyword is None
    assert await north.count() == 3
    assert [item.id for item in await north.get(["nothing"])] == ["nothing"]


async def test_a_memory_with_cues_is_searched_by_text_and_cues_and_returns_the_vectors_of_each(
    north: MemoryStore, engine: StoreEngine
) -> None:
    own, joint = near(QUESTION, 0.2), near(QUESTION, 0.9, "joint")
    rows = packed([own, near(QUESTION, 0.95, "cue")])
    item = memory("m1", cues=["who rings?"])
    await north.put([StoredMemory(item, own, stored(item).sparse, CueVectors(joint, rows)), stored(memory("m2"))])
    revision = (await north.states(["m1"]))["m1"].revision
    assert await north.replace([Replacement(item.model_copy(update={"importance": 0.9}), revision)]) == []
    hit = (await north.search(query(dense=QUESTION)))[0]
    assert (hit.memory.id, hit.memory.importance, hit.memory.cues) == ("m1", 0.9, item.cues)
    assert hit.cosine == pytest.approx(0.9, abs=1e-5)
    assert hit.vector == pytest.approx(own, abs=0.01)
    assert hit.cue_rows == rows
    listed = {entry.memory.id: entry for entry in (await whole(engine).listing(limit=9, vectors=True)).entries}
    assert listed["m1"].cues is not None
    assert listed["m1"].cues.joint == pytest.approx(joint, abs=1e-6)
    assert (listed["m1"].cues.rows, listed["m2"].cues) == (rows, None)
    await north.put([stored(memory("m1"), own)])
    (bare, _) = await north.search(query(dense=QUESTION))
    assert (bare.cue_rows, bare.memory.cues) == (b"", ())


def whole(engine: StoreEngine) -> WholeStore:
    return cast("WholeStore", engine)


async def test_a_put_of_the_same_id_replaces_the_whole_memory(north: MemoryStore) -> None:
    await north.put([stored(memory("m1", "old brass bell"), near(QUESTION, 0.9))])
    await north.put([stored(memory("m1", "new oak door", version=2), bare=True)])
    assert await north.count() == 1
    assert await north.search(query("brass bell", QUESTION)) == []
    (hit,) = await north.search(query("oak door"))
    assert hit.memory.version == 2


async def test_the_last_of_several_with_one_id_in_a_put_counts(north: MemoryStore) -> None:
    await north.put([stored(memory("m1", "first")), stored(memory("m2")), stored(memory("m1", "second"))])
    assert await north.count() == 2
    assert (await north.get(["m1"]))[0].content == "second"


async def test_nothing_is_put_read_or_deleted_by_empty_lists(north: MemoryStore) -> None:
    await north.put([])
    assert await north.get([]) == []
    assert await north.delete([]) == 0
    assert await north.count() == 0


async def test_memories_are_read_in_the_order_asked(north: MemoryStore) -> None:
    await north.put([stored(memory(key, key)) for key in ("a", "b", "c")])
    assert [item.id for item in await north.get(["c", "missing", "a", "c"])] == ["c", "a"]


async def test_a_deleted_memory_never_comes_back(north: MemoryStore) -> None:
    locker = stored(memory("m1", "Imre's old locker number is 214"), near(QUESTION, 0.9))
    await north.put([locker, stored(memory("m2", "locker room"))])
    assert await found(north, "locker number") == {"m1", "m2"}
    assert await north.delete(["m1", "missing", "m1"]) == 1
    assert await found(north, "locker number") == {"m2"}
    assert await north.search(query("214")) == []
    assert await north.get(["m1"]) == []
    assert [item.id for item in (await north.scroll(MemoryFilter(), limit=10)).memories] == ["m2"]
    assert await north.count() == 1
    assert await north.delete(["m1"]) == 0
    await north.put([locker])
    assert await found(north, "locker number") == {"m1", "m2"}


async def test_no_method_reaches_another_tenant(engine: StoreEngine) -> None:
    north, south = engine.tenant("north"), engine.tenant("south")
    text = "Our invoice contact is"
    await north.put([stored(memory("shared", f"{text} Solveig, ext 31"), near(QUESTION, 0.5))])
    await south.put([stored(memory("shared", f"{text} Baptiste, ext 77"), near(QUESTION, 0.9))])
    await south.put([stored(memory("s2", f"{text} retiring", entities=("x",)), near(QUESTION, 0.8, "s2"))])
    for where in (MemoryFilter(), MemoryFilter(Visibility()), MemoryFilter(types=(MemoryType.FACT,))):
        hits = await north.search(query("Who is our invoice contact?", QUESTION, where))
        assert [hit.memory.content for hit in hits] == [f"{text} Solveig, ext 31"]
        assert [item.content for item in (await north.scroll(where, limit=10)).memories] == [f"{text} Solveig, ext 31"]
        assert await north.count(where) == 1
    assert await north.count() == 1
    assert await north.get(["s2"]) == []
    assert await north.delete(["s2"]) == 0
    assert await north.delete(["shared"]) == 1
    assert {item.content for item in await south.get(["shared", "s2"])} == {
        f"{text} Baptiste, ext 77",
        f"{text} retiring",
    }


async def test_own_memories_are_found_behind_a_crowd_of_nearer_foreign_ones(engine: StoreEngine) -> None:
    north, south = engine.tenant("north"), engine.tenant("south")
    text = "Our invoice contact is Baptiste"
    await south.put([stored(memory(f"s{i}", text), near(QUESTION, 0.95, f"s{i}")) for i in range(300)])
    await north.put([stored(memory("n1", "The invoice contact in the north"), near(QUESTION, 0.3))])
    hits = await north.search(query("Our invoice contact is Baptiste", QUESTION, limit=20))
    assert ids(hits) == ["n1"]
    assert hits[0].cosine == pytest.approx(0.3, abs=1e-5)
    assert hits[0].keyword is not None
    assert len(await south.search(query(text, QUESTION, limit=20))) >= 20


async def test_term_weights_do_not_depend_on_other_tenants(engine: StoreEngine) -> None:
    north, south = engine.tenant("north"), engine.tenant("south")
    await north.put([stored(memory("n1", "copper kettle")), stored(memory("n2", "oak table"))])
    (before,) = await north.search(query("kettle"))
    await south.put([stored(memory(f"s{index}", f"kettle {index}")) for index in range(50)])
    (after,) = await north.search(query("kettle"))
    assert after.keyword == pytest.approx(before.keyword, abs=1e-5)


async def test_a_tenant_needs_a_name(engine: StoreEngine) -> None:
    with pytest.raises(StoreError, match="tenant"):
        engine.tenant("")


@pytest.mark.parametrize("name", ["a b", "Ünïcode 経", "quote\"'", "\x00", "\ud800", "x" * 512])
async def test_any_other_name_of_a_tenant_or_memory_works(engine: StoreEngine, name: str) -> None:
    store = engine.tenant(name)
    await store.put([stored(memory(name))])
    assert await found(store, "bell") == {memory(name).id}
    assert len(await store.get([name])) == 1
    assert await store.delete([name]) == 1


async def test_everybody_and_the_named_owners_see_a_memory(north: MemoryStore) -> None:
    owners = {
        "everybody": MemoryScope(),
        "anna": MemoryScope(user="anna"),
        "bert": MemoryScope(user="bert"),
        "agent": MemoryScope(agent="main"),
        "project": MemoryScope(project="bridge"),
        "all": MemoryScope(user="anna", agent="main", project="bridge"),
    }
    await north.put([stored(memory(key, f"bell of {key}", scope=scope)) for key, scope in owners.items()])

    async def seen(users: tuple[str, ...], agents: tuple[str, ...], projects: tuple[str, ...]) -> set[str]:
        where = MemoryFilter(Visibility(users, agents, projects))
        both = await found(north, "bell", where)
        assert set(ids(await north.search(query("bell", where=where)))) == both
        assert {item.id for item in (await north.scroll(where, limit=10)).memories} == both
        assert await north.count(where) == len(both)
        return both

    assert await seen((), (), ()) == {"everybody"}
    assert await seen(("anna",), (), ()) == {"everybody", "anna"}
    assert await seen(("anna", "bert"), (), ()) == {"everybody", "anna", "bert"}
    assert await seen((), ("main", "other"), ("bridge",)) == {"everybody", "agent", "project"}
    assert await seen(("anna",), ("main",), ("bridge",)) == set(owners) - {"bert"}
    assert await found(north, "bell") == set(owners)


async def test_superseded_and_expired_memories_are_gone_from_their_time_on(north: MemoryStore) -> None:
    tick = timedelta(microseconds=1)
    now = datetime(2026, 6, 1, 12, 0, 0, 500, tzinfo=UTC)
    items = [
        memory("valid"),
        memory("superseded", superseded_by="valid"),
        memory("superseded now", superseded_by="valid", superseded_at=now),
        memory("superseded soon", superseded_by="valid", superseded_at=now + tick),
        memory("expired now", valid_until=now),
        memory("expires soon", valid_until=now + tick),
        memory("expires in year 9999", valid_until=datetime.max),
    ]
    await north.put([stored(item) for item in items])
    where = MemoryFilter(Visibility(valid_at=now))
    assert await found(north, "bell", where) == {"valid", "superseded soon", "expires soon", "expires in year 9999"}
    assert await north.count(where) == 4
    assert await north.count(MemoryFilter(Visibility(valid_at=now + tick))) == 2
    assert await north.count(MemoryFilter(Visibility(valid_at=now - tick))) == 6
    assert await found(north, "bell", MemoryFilter(Visibility())) == {item.id for item in items}


async def test_replay_sees_no_younger_memories_but_undated_ones(north: MemoryStore) -> None:
    dates = {
        "before": CREATED,
        "at": CREATED + timedelta(days=1),
        "after": CREATED + timedelta(days=2),
        "undated": None,
    }
    await north.put([stored(memory(key, created_at=date)) for key, date in dates.items()])
    where = MemoryFilter(Visibility(created_until=CREATED + timedelta(days=1)))
    assert await found(north, "bell", where) == {"before", "at", "undated"}


async def test_a_search_narrowed_by_date_brings_dated_memories_only(north: MemoryStore) -> None:
    dates = {"d0": CREATED, "d1": CREATED + timedelta(days=1), "d2": CREATED + timedelta(days=2), "undated": None}
    await north.put([stored(memory(key, created_at=date)) for key, date in dates.items()])
    since, until = CREATED + timedelta(days=1), CREATED + timedelta(days=1)
    assert await found(north, "bell", MemoryFilter(since=since)) == {"d1", "d2"}
    assert await found(north, "bell", MemoryFilter(until=until)) == {"d0", "d1"}
    assert await found(north, "bell", MemoryFilter(since=since, until=until)) == {"d1"}
    assert await found(north, "bell", MemoryFilter(since=since.replace(tzinfo=None))) == {"d1", "d2"}


async def test_dates_in_every_form_are_stored_and_compared(north: MemoryStore) -> None:
    forms = {
        "m1": "2026-02-01T08:29:42.958511+00:00",
        "m2": "2026-02-01 08:29:42",
        "m3": "2026-02-03",
        "m4": 1770112800000,
        "m5": None,
        "m6": "2027-01-01T00:00:00Z",
    }
    await north.put([stored(memory(key, "Ballast survey done", created_at=form)) for key, form in forms.items()])
    now = datetime(2026, 2, 10, tzinfo=UTC)
    where = MemoryFilter(Visibility(valid_at=now, created_until=now))
    assert await found(north, "ballast survey", where) == {"m1", "m2", "m3", "m4", "m5"}
    assert await found(north, "ballast survey") == set(forms)
    for item in await north.get(list(forms)):
        assert item.created_at is None or item.created_at.tzinfo is not None


async def test_types_and_entities_narrow_a_search(north: MemoryStore) -> None:
    await north.put(
        [
            stored(memory("todo", type="todo", entities=("Bridge", "Imre"))),
            stored(memory("goal", type="goal", entities=("ÉMILE",))),
            stored(memory("fact")),
        ]
    )
    assert await found(north, "bell", MemoryFilter(types=(MemoryType.TODO, MemoryType.FACT))) == {"todo", "fact"}
    assert await found(north, "bell", MemoryFilter(entities=("bridge", "émile"))) == {"todo", "goal"}
    assert await found(north, "bell", MemoryFilter(types=(MemoryType.GOAL,), entities=("imre",))) == set()


async def test_a_listing_is_complete_stable_and_free_of_repeats(north: MemoryStore) -> None:
    await north.put([stored(memory(f"m{index}", f"bell {index}")) for index in range(25)])

    async def listing(size: int) -> list[str]:
        listed: list[str] = []
        cursor = None
        while True:
            page = await north.scroll(MemoryFilter(), limit=size, cursor=cursor)
            listed += [item.id for item in page.memories]
            assert len(page.memories) <= size
            cursor = page.cursor
            if cursor is None:
                return listed

    whole = await listing(100)
    assert sorted(whole) == sorted(f"m{index}" for index in range(25))
    assert await listing(4) == whole
    assert await listing(25) == whole


async def test_an_unknown_cursor_is_a_store_error(north: MemoryStore) -> None:
    await north.put([stored(memory("m1"))])
    with pytest.raises(StoreError):
        await north.scroll(MemoryFilter(), limit=3, cursor="nonsense")


BAD_VECTORS = [
    (float("nan"),) * DIMENSION,
    (float("inf"),) * DIMENSION,
    (0.0,) * DIMENSION,
    (1.0,) * (DIMENSION + 1),
    (),
]


@pytest.mark.parametrize("bad", BAD_VECTORS)
async def test_a_dense_query_without_direction_leaves_the_keyword_search(
    north: MemoryStore, bad: tuple[float, ...]
) -> None:
    await north.put([stored(memory("m1"))])
    (hit,) = await north.search(query("bell", bad))
    assert hit.cosine is None
    assert hit.keyword is not None
    with pytest.raises(StoreError, match="nothing to search by"):
        await north.search(query(dense=bad))


@pytest.mark.parametrize("bad", BAD_VECTORS)
async def test_a_dense_vector_without_direction_is_left_out(north: MemoryStore, bad: Vector) -> None:
    await north.put([StoredMemory(memory("m1"), bad, stored(memory("m1")).sparse)])
    (hit,) = await north.search(query("bell", QUESTION))
    assert (hit.cosine, hit.vector) == (None, None)


async def test_a_search_for_nothing_is_a_store_error(north: MemoryStore) -> None:
    with pytest.raises(StoreError, match="nothing to search by"):
        await north.search(query(""))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('don\'t skip "pre-flight" -v AND (NOT ready', {"m1"}),
        ("what is in C:\\sites\\kiln\\conf.d ?", {"m2"}),
        ("reach 4 GB/s * 50% ^2 ~ tag:urgent {x} [y]", {"m3"}),
        ("'; DROP TABLE memories; --", set()),
    ],
)
async def test_special_characters_are_no_syntax(north: MemoryStore, text: str, expected: set[str]) -> None:
    contents = {
        "m1": "The pre-flight checklist is laminated and green",
        "m2": "Kiln config lives in C:\\sites\\kiln\\conf.d",
        "m3": "Throughput target is 4 GB/s",
    }
    await north.put([stored(memory(key, content)) for key, content in contents.items()])
    assert set(ids(await north.search(query(text)))) == expected


@pytest.mark.parametrize(("text", "expected"), [("精算の締め切りはいつ？", "m1"), ("窯の上限温度は？", "m3")])
async def test_japanese_memories_are_found_by_their_words(north: MemoryStore, text: str, expected: str) -> None:
    contents = {
        "m1": "経費精算の締め切りは毎月二十三日です",
        "m2": "社員旅行の写真は共有フォルダにあります",
        "m3": "窯の温度は一二四〇度が上限です",
    }
    await north.put([stored(memory(key, content), bare=True) for key, content in contents.items()])
    assert ids(await north.search(query(text))) == [expected]


async def test_many_callers_at_once_get_their_own_answers(engine: StoreEngine) -> None:
    async def work(name: str) -> None:
        store = engine.tenant(name)
        await store.put([stored(memory(f"{name}-{index}", f"bell {index} of {name}")) for index in range(10)])
        assert len(await store.search(query("bell", direction(name)))) == 10
        assert all(item.id.startswith(name) for item in (await store.scroll(MemoryFilter(), limit=20)).memories)
        assert await store.delete([f"{name}-0"]) == 1
        assert await store.count() == 9

    await asyncio.gather(*(work(f"tenant{index}") for index in range(8)))
    assert (await engine.health()).points == 72


async def test_a_healthy_store_says_so(engine: StoreEngine) -> None:
    await engine.tenant("north").put([stored(memory("m1")), stored(memory("m2", "x"))])
    await engine.flush()
    health = await engine.health()
    assert (health.points, health.dense_usable, health.fault, health.notes) == (2, True, None, ())
    await engine.tenant("north").put([stored(memory("m3"), bare=True)])
    assert "1 memories have no dense vector" in " ".join((await engine.health()).notes)


async def test_the_engines_agree_on_ids_and_scores(tmp_path: Path) -> None:
    words = [
        "bell",
        "beam",
        "kiln",
        "ladder",
        "copper",
        "larch",
        "invoice",
        "ballast",
        "survey",
        "harbour",
        "lantern",
        "rope",
    ]
    items = []
    for index in range(200):
        text = " ".join(words[(index * step + step) % len(words)] for step in range(1, 3 + index % 7))
        kind = list(MemoryType)[index % 9]
        scope = MemoryScope(user=("anna", None)[index % 2])
        item = memory(f"m{index}", f"{text} {index}", type=kind, scope=scope)
        items.append(stored(item, bare=index % 10 == 0))
    names = [name for name in ENGINES if name != "server" or os.environ.get("QDRANT_URL")]
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(opened(name, tmp_path)) for name in names]
        stores = [engine.tenant("north") for engine in engines]
        for engine, store in zip(engines, stores, strict=True):
            await store.put(items)
            await engine.tenant("south").put(items[:50])
        wheres = [MemoryFilter(), MemoryFilter(Visibility()), MemoryFilter(types=(MemoryType.FACT, MemoryType.TODO))]
        for index in range(60):
            text = f"{words[index % 12]} {words[index * 5 % 12]} {index}"
            asked = query(text, direction(text), wheres[index % 3], limit=15)
            answers = [await store.search(asked) for store in stores]
            for other in answers[1:]:
                assert_same(answers[0], other)


def assert_same(left: list[Hit], right: list[Hit]) -> None:
    assert set(ids(left)) == set(ids(right))
    others = {hit.memory.id: hit for hit in right}
    for hit in left:
        other = others[hit.memory.id]
        assert hit.memory == other.memory
        assert hit.cosine == pytest.approx(other.cosine, abs=1e-5)
        assert hit.keyword == pytest.approx(other.keyword, abs=1e-5)
        assert (hit.vector is None) == (other.vector is None)
