"""Recall on the real embedded store: searches, limits and filters."""

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import Reason
from tests.support.embedders import HashingEmbedder
from tests.support.service import NOW, Service, fact, open_service
from worker.domain.deadline import Deadline
from worker.domain.errors import EmbedderError, StoreError
from worker.domain.kinds import Budget, SearchKind, SortKey
from worker.domain.memory import (
    CandidateVerdict,
    Hit,
    HybridQuery,
    MemoryFilter,
    MemoryType,
    Recalled,
    RecallQuery,
    Vector,
    Visibility,
)
from worker.domain.timings import Stages
from worker.ports.store import MemoryStore, StoreEngine
from worker.recall.recall import Recall, RecallScope
from worker.settings.injection import InjectionConfig

OPEN = {"contextual_min_score": -1.0, "recall_min_score": -1.0}


def scope(**visibility: Any) -> RecallScope:
    return RecallScope("t1", Visibility(valid_at=NOW, **visibility), NOW)


async def recalled(service: Service, query: RecallQuery | str, **config: Any) -> Recalled:
    wanted = RecallQuery(query) if isinstance(query, str) else query
    settings = service.config.model_copy(update=InjectionConfig.model_validate(config).model_dump(include=set(config)))
    return await service.recall(wanted, scope(), settings, Deadline.after(20), Stages())


def ids(found: Recalled) -> list[str]:
    return [candidate.memory.id for candidate in found.candidates]


@asynccontextmanager
async def harbour(folder: Path, **config: Any) -> AsyncIterator[Service]:
    async with open_service(folder, embedder=HashingEmbedder(), **{**OPEN, **config}) as service:
        yield service


class Counting:
    """A tenant's store that records the sizes of its queries."""

    def __init__(self, store: MemoryStore, asked: list[int]) -> None:
        self._store = store
        self._asked = asked

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def search(self, query: HybridQuery) -> list[Hit]:
        return (await self.search_many([query]))[0]

    async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        self._asked += [query.limit for query in queries]
        found = await self._store.search_many(queries)
        assert all(len(hits) <= 2 * query.limit for hits, query in zip(found, queries, strict=True))
        return found

    async def ordered(self, where: MemoryFilter, by: SortKey, *, limit: int) -> list[Hit]:
        self._asked.append(limit)
        return await self._store.ordered(where, by, limit=limit)


class CountingEngine:
    def __init__(self, engine: StoreEngine) -> None:
        self._engine = engine
        self.asked: list[int] = []

    def tenant(self, name: str) -> Any:
        return Counting(self._engine.tenant(name), self.asked)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


async def test_search_limit_applies_to_every_search(tmp_path: Path) -> None:
    async with harbour(tmp_path) as service:
        await service.put([fact(f"m{n}", f"Imre noted tide {n}", entities=["Imre"]) for n in range(40)])
        engine, embedder = CountingEngine(service.engine), HashingEmbedder()
        recall = Recall(engine, service.recall._sparse, embedder)
        config = InjectionConfig(search_limit=4, graph_limit=3, graph_seed_limit=2, **OPEN)
        query = RecallQuery("what did Imre note last week", also=("the tide table",))
        found = await recall(query, scope(), config, Deadline.after(20), Stages())
    assert engine.asked.count(4) == 4
    assert set(engine.asked) == {2, 3, 4}
    assert len(found.candidates) <= 4 * 2 * 4 + 3 * 3


async def test_a_low_budget_searches_less(tmp_path: Path) -> None:
    async with harbour(tmp_path) as service:
        await service.put([fact("m1", "Imre noted the tide", entities=["Imre"])])
        engine, embedder = CountingEngine(service.engine), HashingEmbedder()
        recall = Recall(engine, service.recall._sparse, embedder)
        query = RecallQuery("Imre last week", also=("the tide table",), budget=Budget.LOW)
        found = await recall(query, scope(), InjectionConfig(**OPEN), Deadline.after(20), Stages())
    assert engine.asked == [30]
    assert embedder.queries == ["Imre last week"]
    assert ids(found) == ["m1"]


async def test_filters_apply_to_every_search(tmp_path: Path) -> None:
    async with harbour(tmp_path) as service:
        await service.put(
            [
                fact("todo", "Grease the winch", type="todo", entities=["winch"], channel="#yard"),
                fact("fact", "The winch is green", entities=["winch"], channel="#dock"),
                fact("old", "The winch was bought", created_at="2020-05-01T00:00:00Z", relations=link("fact")),
                fact("seen", "The winch failed", created_at="2026-03-01T00:00:00Z", occurred_at="2020-05-02T00:00:00Z"),
            ]
        )
        by_type = await recalled(service, RecallQuery("winch", types=(MemoryType.TODO,)))
        by_name = await recalled(service, RecallQuery("winch", entities=("Winch",)))
        by_channel = await recalled(service, RecallQuery("winch", channels=("#dock",)))
        until = NOW.replace(year=2021)
        by_time = await recalled(service, RecallQuery("winch", until=until))
    assert ids(by_type) == ["todo"]
    assert set(ids(by_name)) == {"todo", "fact"}
    assert ids(by_channel) == ["fact"]
    assert set(ids(by_time)) == {"old", "seen"}


def link(*targets: str, kind: str = "related_to") -> list[dict[str, str]]:
    return [{"kind": kind, "target": target} for target in targets]


async def test_a_time_in_the_message_finds_memories_of_that_time(tmp_path: Path) -> None:
    async with harbour(tmp_path, search_limit=2, graph_limit=0) as service:
        near = [fact(f"m{n}", "what broke last week", created_at="2025-01-10T00:00:00Z") for n in range(9)]
        await service.put([*near, fact("then", "Cable snapped", created_at="2026-03-11T00:00:00Z")])
        found = await recalled(service, "what broke last week")
    then = next(candidate for candidate in found.candidates if candidate.memory.id == "then")
    assert then.legs == (SearchKind.DATED,)


async def test_a_name_in_the_message_finds_its_memories(tmp_path: Path) -> None:
    async with harbour(tmp_path, search_limit=2, graph_limit=0) as service:
        near = [fact(f"m{n}", "what should I know before calling") for n in range(9)]
        await service.put([*near, fact("her", "Prefers mornings", entities=["Solveig Ødegård"])])
        found = await recalled(service, "what should I know before calling solveig")
    assert SearchKind.NAMED in next(one.legs for one in found.candidates if one.memory.id == "her")


async def test_links_and_shared_names_are_followed(tmp_path: Path) -> None:
    async with harbour(tmp_path, search_limit=1) as service:
        await service.put(
            [
                fact("hit", "The mooring buoy drifts", entities=["Buoy 7"], relations=link("target")),
                fact("target", "Chains arrive Thursday"),
                fact("pointing", "Ask the diver first", relations=link("hit")),
                fact("namesake", "Repainted in spring", entities=["buoy 7"]),
                fact("stranger", "Nobody keeps bees"),
                fact("expired", "Old chains", valid_until="2026-01-01T00:00:00Z", relations=link("hit")),
                fact("private", "Secret chains", relations=link("hit"), scope={"user": "other"}),
            ]
        )
        found = await recalled(service, "the mooring buoy drifts")
        without = await recalled(service, "the mooring buoy drifts", graph_limit=0)
        bounded = await recalled(service, "the mooring buoy drifts", graph_limit=1)
    assert {"hit", "target", "pointing", "namesake"} <= set(ids(found))
    assert not {"expired", "private"} & set(ids(found))
    assert {"target", "pointing", "namesake"}.isdisjoint(ids(without))
    assert len(bounded.candidates) <= 1 + 3
    linked = next(one for one in found.candidates if one.memory.id == "target")
    assert SearchKind.LINKED in linked.legs


async def test_links_of_important_memories_are_followed(tmp_path: Path) -> None:
    async with harbour(tmp_path, search_limit=3) as service:
        near = [fact(f"m{n}", "the storm rule for mooring") for n in range(9)]
        seed = fact("seed", "storm rule written down", importance=0.9, relations=link("target"))
        await service.put([*near, seed, fact("target", "Double every line")])
        on = await recalled(service, "the storm rule for mooring")
        off = await recalled(service, "the storm rule for mooring", graph_seed_limit=0)
        higher = await recalled(service, "the storm rule for mooring", graph_seed_threshold=0.95)
    assert "target" in ids(on)
    assert "target" not in ids(off)
    assert "target" not in ids(higher)


async def test_a_superseded_hit_leads_to_the_current_memory(tmp_path: Path) -> None:
    async with harbour(tmp_path, search_limit=1, graph_limit=0) as service:
        await service.put(
            [
                fact("v1", "The gate code is 4411"),
                fact("v2", "Keypad changed, 9923", relations=link("v1", kind="supersedes")),
                fact("v3", "Use the app instead", relations=link("v2", kind="supersedes")),
            ]
        )
        found = await recalled(service, "The gate code is 4411")
        past = await recalled(service, RecallQuery("The gate code is 4411", history=True))
        low = await recalled(service, RecallQuery("The gate code is 4411", budget=Budget.LOW))
    (now,) = found.candidates
    assert (now.memory.id, now.legs) == ("v3", (SearchKind.SUCCESSOR,))
    assert now.cosine == pytest.approx(1.0, abs=1e-3)
    assert {(entry.candidate.memory.id, entry.verdict, entry.of) for entry in found.dropped} == {
        ("v1", CandidateVerdict.SUPERSEDED, "v2"),
        ("v2", CandidateVerdict.SUPERSEDED, "v3"),
    }
    assert set(ids(past)) == {"v1", "v2", "v3"}
    assert ids(low) == ["v3"]


async def test_an_invisible_successor_stays_hidden_and_outdates_nothing(tmp_path: Path) -> None:
    async with harbour(tmp_path) as service:
        successor = fact("new", "Use the app", relations=link("old", kind="supersedes"), scope={"user": "other"})
        await service.put([fact("old", "The gate code is 4411"), successor])
        found = await recalled(service, "The gate code is 4411")
    assert ids(found) == ["old"]


async def test_a_cycle_of_successors_ends(tmp_path: Path) -> None:
    async with harbour(tmp_path) as service:
        await service.put(
            [fact("a", "The gate code is 4411", superseded_by="b"), fact("b", "Use the app", superseded_by="a")]
        )
        found = await recalled(service, "The gate code is 4411")
    assert found.candidates == ()


async def test_pinned_types_are_recalled_for_any_query(tmp_path: Path) -> None:
    async with harbour(tmp_path, contextual_min_score=0.99) as service:
        todos = [
            fact(f"t{n}", f"Task {n}", type="todo", importance=n / 10, created_at=f"2026-0{3 - n}-01T00:00:00Z")
            for n in range(3)
        ]
        hidden = fact("hers", "Private", type="todo", importance=1.0, scope={"user": "other"})
        done = fact("done", "Done", type="todo", importance=1.0, valid_until="2026-01-01T00:00:00Z")
        await service.put([*todos, hidden, done, fact("goal", "Ship it", type="goal"), fact("f", "A fact")])
        query = RecallQuery("zebra", pinned=True)
        pins = {"ambient_enabled": True, "pinned_types": ("todo", "goal"), "pinned_limit": 2}
        recent = await recalled(service, query, **pins)
        important = await recalled(service, query, **pins, pinned_sort="importance")
        off = await recalled(service, query, **{**pins, "ambient_enabled": False})
        by_tool = await recalled(service, RecallQuery("zebra"), **pins)
    assert ids(recent) == ["t0", "t1", "goal"]
    assert ids(important) == ["t2", "t1", "goal"]
    assert {one.source.value for one in recent.candidates} == {"pinned"}
    assert ids(off) == ids(by_tool) == []


async def test_pinned_memories_are_recalled_for_any_query(tmp_path: Path) -> None:
    async with harbour(tmp_path, contextual_min_score=0.99) as service:
        pins = [
            fact(f"p{n}", f"Pin {n}", pinned=True, importance=n / 10, created_at=f"2026-0{3 - n}-01T00:00:00Z")
            for n in range(3)
        ]
        hidden = fact("hers", "Private", pinned=True, scope={"user": "other"})
        done = fact("done", "Done", pinned=True, valid_until="2026-01-01T00:00:00Z")
        todo = fact("todo", "Task", type="todo", pinned=True, created_at="2026-03-02T00:00:00Z")
        await service.put([*pins, hidden, done, todo, fact("f", "A fact")])
        query = RecallQuery("zebra", pinned=True)
        recent = await recalled(service, query, max_total=2)
        types = {"ambient_enabled": True, "pinned_types": ("todo",)}
        both = await recalled(service, query, **types, max_total=2)
        important = await recalled(service, query, max_total=2, pinned_sort="importance")
        by_tool = await recalled(service, RecallQuery("zebra"))
    assert ids(recent) == ids(both) == ["todo", "p0"]
    assert {one.source.value for one in both.candidates} == {"pinned"}
    assert ids(important) == ["todo", "p2"]
    assert ids(by_tool) == []


async def test_keyword_scores_are_scaled_to_the_tenants_store(tmp_path: Path) -> None:
    async with harbour(tmp_path, graph_limit=0) as service:
        await service.put([fact("m0", "lighthouse keeper")])
        small = await recalled(service, "lighthouse")
        await service.put([fact(f"m{n}", f"crate {n}") for n in range(1, 120)])
        service.recall._sizes.clear()
        large = await recalled(service, "lighthouse")
    assert small.candidates[0].keyword is not None
    assert large.candidates[0].keyword is not None
    assert large.candidates[0].keyword > 4 * small.candidates[0].keyword
    assert large.candidates[0].relevance == pytest.approx(small.candidates[0].relevance, abs=0.1)


async def test_a_slow_store_is_a_store_error(tmp_path: Path) -> None:
    class Stuck(Counting):
        async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
            await asyncio.sleep(30)
            return []

    class StuckEngine(CountingEngine):
        def tenant(self, name: str) -> Any:
            return Stuck(self._engine.tenant(name), [])

    async with harbour(tmp_path) as service:
        recall = Recall(StuckEngine(service.engine), service.recall._sparse, HashingEmbedder())
        with pytest.raises(StoreError, match="deadline"):
            await recall(RecallQuery("x y"), scope(), InjectionConfig(), Deadline.after(0.2), Stages())


async def test_a_slow_embedder_leaves_keyword_search(tmp_path: Path) -> None:
    async with harbour(tmp_path) as service:
        await service.put([fact("m1", "lighthouse keeper"), fact("m2", "bees")])
        recall = Recall(service.engine, service.recall._sparse, HashingEmbedder(delay=5.0))
        found = await recall(
            RecallQuery("lighthouse keeper"), scope(), InjectionConfig(), Deadline.after(0.5), Stages()
        )
    assert ids(found) == ["m1"]
    assert found.candidates[0].cosine is None
    assert found.degraded is not None


async def test_an_embedder_may_take_a_third_of_the_time_that_is_left(tmp_path: Path) -> None:
    async with harbour(tmp_path) as service:
        await service.put([fact("m1", "lighthouse keeper"), fact("m2", "bees")])
        recall = Recall(service.engine, service.recall._sparse, HashingEmbedder(delay=0.6))
        asked = RecallQuery("lighthouse keeper")
        found = await recall(asked, scope(), InjectionConfig(), Deadline.after(4.0), Stages())
    assert found.degraded is None
    assert found.candidates[0].cosine is not None


@pytest.mark.parametrize(
    ("message", "expected"),
    [("and the of it", []), ("wifi?", ["wifi"]), ("会議？", ["jp"]), ("чайник?", ["ru"]), ("주차장?", ["ko"])],
)
async def test_by_keywords_alone_stop_words_find_nothing_and_short_questions_find_their_word(
    tmp_path: Path, message: str, expected: list[str]
) -> None:
    texts = {
        "wifi": "The wifi hint is on the fridge",
        "jp": "会議は火曜日です",
        "ru": "Чайник в шкафу",
        "ko": "주차장은 지하",
    }
    async with open_service(tmp_path, embedder=HashingEmbedder()) as service:
        await service.put([fact(key, text) for key, text in texts.items()])
        recall = Recall(service.engine, service.recall._sparse, None)
        found = await recall(RecallQuery(message), scope(), service.config, Deadline.after(5), Stages())
        assert [candidate.memory.id for candidate in found.candidates] == expected


class SlowToClose(HashingEmbedder):
    """Fails when its caller no longer waits, as a broken connection may."""

    async def embed_query(self, text: str) -> Vector:
        try:
            await asyncio.sleep(3600)
        finally:
            raise EmbedderError("closed")


async def test_an_error_of_an_embedder_that_is_too_late_is_not_logged(tmp_path: Path) -> None:
    logged: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context["message"]))
    async with open_service(tmp_path, embedder=SlowToClose()) as service:
        found = await service.recall(RecallQuery("q"), scope(), service.config, Deadline.after(3), Stages())
    await asyncio.sleep(0)
    gc.collect()
    assert found.degraded is Reason.EMBEDDER_UNAVAILABLE
    assert logged == []
