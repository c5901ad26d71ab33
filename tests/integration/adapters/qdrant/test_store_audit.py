"""Regression tests for the faults P1 to P10 of an audit of an earlier version."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hooks.contract import ItemSource, Outcome
from tests.support.embedders import HashingEmbedder
from tests.support.service import NOW, Service, fact, ids, open_service
from worker.domain.deadline import Deadline
from worker.domain.kinds import SearchKind, SortKey
from worker.domain.memory import CandidateVerdict, Hit, HybridQuery, MemoryFilter, RecallQuery, Vector, Visibility
from worker.domain.timings import Stages
from worker.ports.store import MemoryStore, StoreEngine
from worker.recall.recall import Recall, RecallScope
from worker.text.tokens import estimate_tokens

OPEN: dict[str, Any] = {
    "contextual_min_score": -1.0,
    "recall_min_score": -1.0,
    "confident_score": 0.0,
    "relative_cut": 0.0,
}
PINS: dict[str, Any] = {"ambient_enabled": True, "pinned_types": ["todo", "goal"]}
SCOPE = RecallScope("t1", Visibility(valid_at=NOW), NOW)


class Watched:
    """A tenant's store that records its requests and delays listings until `barrier` opens."""

    def __init__(self, store: MemoryStore, barrier: "Barrier") -> None:
        self._store = store
        self._barrier = barrier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        self._barrier.requests["search"] += 1
        return await self._store.search_many(queries)

    async def ordered(self, where: MemoryFilter, by: SortKey, *, limit: int) -> list[Hit]:
        self._barrier.requests["listing"] += 1
        await self._barrier.arrive()
        return await self._store.ordered(where, by, limit=limit)


class Barrier:
    """Open once `parties` callers wait; sequential callers wait forever."""

    def __init__(self, parties: int) -> None:
        self._parties = parties
        self._open = asyncio.Event()
        self.requests: Counter[str] = Counter()

    async def arrive(self) -> None:
        self._parties -= 1
        if self._parties <= 0:
            self._open.set()
        await self._open.wait()


class WatchedEngine:
    def __init__(self, engine: StoreEngine, barrier: Barrier) -> None:
        self._engine = engine
        self._barrier = barrier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def tenant(self, name: str) -> Any:
        return Watched(self._engine.tenant(name), self._barrier)


class GatedEmbedder(HashingEmbedder):
    def __init__(self, barrier: Barrier) -> None:
        super().__init__()
        self._barrier = barrier

    async def embed_query(self, text: str) -> Vector:
        await self._barrier.arrive()
        return await super().embed_query(text)


async def recalled_through(service: Service, barrier: Barrier, embedder: HashingEmbedder) -> list[str]:
    """Run a recall with pinned memories, record its store requests in `barrier`, and return the ids found."""
    recall = Recall(WatchedEngine(service.engine, barrier), service.recall._sparse, embedder)
    query = RecallQuery("when does the ferry to Vestmanna leave", pinned=True)
    found = await recall(query, SCOPE, service.config, Deadline.after(5), Stages())
    return [candidate.memory.id for candidate in found.candidates]


FERRY = [
    fact("ferry", "The ferry to Vestmanna leaves at noon", importance=0.95, type="goal"),
    fact("pass", "The ferry pass lies in the blue drawer", importance=0.9, type="todo"),
    fact("tea", "Runa drinks her tea without milk", importance=0.9),
]


async def test_p1_one_search_returns_everything_once(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder(), **OPEN, **PINS) as service:
        await service.put(FERRY)
        barrier, embedder = Barrier(0), HashingEmbedder()
        found = await recalled_through(service, barrier, embedder)
    assert sorted(found) == sorted({"ferry", "pass", "tea"})  # what is pinned, important and found is there once
    # the searches, linked memories, one listing of pinned memories and one per pinned type
    assert barrier.requests == {"search": 2, "listing": 3}
    assert embedder.queries == ["when does the ferry to Vestmanna leave"]


@pytest.mark.parametrize("limit", [3, 12])
async def test_p2_search_limit_applies_to_each_search(tmp_path: Path, limit: int) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder(), **OPEN, search_limit=limit) as service:
        await service.put([fact(f"m{n:02}", f"gull {n:02} counted", created_at="2025-01-01") for n in range(30)])
        receipt = await service.receipt(await service.ask("How many gulls were counted, gull by gull?"))
    by_search = Counter(search_kind for memory in receipt.considered for search_kind in memory.legs)
    assert limit <= by_search[SearchKind.MESSAGE] <= 2 * limit  # by meaning and by words, which may differ
    assert len(receipt.considered) <= 2 * limit


async def test_p3_one_cap_holds_over_all_sources(tmp_path: Path) -> None:
    async with open_service(tmp_path, **OPEN, **PINS, max_total=4, max_items=50, pinned_limit=10) as service:
        todos = [fact(f"t{n}", f"Call harbour master number {n}", type="todo") for n in range(8)]
        await service.put([*todos, *(fact(f"f{n}", f"Harbour master {n} likes chess") for n in range(8))])
        result = await service.ask("What does the harbour master like to play?")
    assert len(result.items) == 4


async def test_p4_sources_are_asked_at_the_same_time(tmp_path: Path) -> None:
    async with open_service(tmp_path, embedder=HashingEmbedder(), **OPEN, **PINS) as service:
        await service.put(FERRY)
        barrier = Barrier(parties=3)  # two listings and the embedder, each of which waits for the others
        async with asyncio.timeout(4):
            found = await recalled_through(service, barrier, GatedEmbedder(barrier))
    assert sorted(found) == ["ferry", "pass", "tea"]


async def test_p5_the_block_has_sections_and_types(tmp_path: Path) -> None:
    async with open_service(tmp_path, **OPEN, **PINS) as service:
        await service.put([fact("todo", "Repaint the buoy", type="todo"), fact("fact", "The buoy is off Nordskot")])
        result = await service.ask("Where is the buoy?", render={"format": "sections"})
    lines = (result.memory_context or "").splitlines()
    order = [next(n for n, line in enumerate(lines) if part in line) for part in PARTS]
    assert order == sorted(order)
    assert lines[order[1]].startswith("[Todo]")
    assert lines[order[3]].startswith("[Fact]")


PARTS = ("[Pinned context]", "Repaint the buoy", "[Relevant to this message]", "The buoy is off Nordskot")


async def test_p6_memories_outside_the_window_can_be_shown_again(tmp_path: Path) -> None:
    question = "Where is the spare winch handle kept?"
    async with open_service(tmp_path, **OPEN, context_window_depth=3) as service:
        await service.put([fact("winch", "The spare winch handle is kept in the sail loft")])
        first = await service.ask(question, turn="1")
        again = await service.ask(question, turn="2")
        await service.ask("Is the tide table for Bodo printed?", turn="3")
        later = await service.ask(question, turn="4")
    assert ids(first) == ["winch"]
    assert again.outcome is Outcome.ALL_DUPLICATE
    assert ids(later) == ["winch"]


async def test_p7_results_depend_on_the_message(tmp_path: Path) -> None:
    async with open_service(tmp_path) as service:
        await service.put(
            [
                fact("name", "The assistant is called Skipper", type="identity", importance=1.0),
                fact("rope", "Mooring ropes are replaced every third spring", importance=0.3),
                fact("fuel", "The diesel tank of the launch holds ninety litres", importance=0.3),
            ]
        )
        ropes = await service.ask("How often do we replace the mooring ropes?", turn="1")
        diesel = await service.ask("How many litres does the diesel tank hold?", turn="2")
        hello = await service.ask("hello", turn="3")
    assert (ids(ropes), ids(diesel), ids(hello)) == (["rope"], ["fuel"], [])
    assert hello.outcome is Outcome.SKIPPED


@pytest.mark.parametrize(("threshold", "brought"), [(0.7, True), (0.8, False)])
async def test_p8_the_threshold_of_graph_seeds_is_the_configured_one(
    tmp_path: Path, threshold: float, brought: bool
) -> None:
    embedder = HashingEmbedder()
    async with open_service(
        tmp_path, embedder=embedder, **OPEN, search_limit=2, graph_seed_threshold=threshold
    ) as service:
        leads = [{"kind": "related_to", "target": "far"}]
        crowd = [fact(f"m{n}", "storm rule for the mooring") for n in range(8)]
        seed = fact("seed", "storm rule", importance=0.75, relations=leads)
        await service.put([*crowd, seed, fact("far", "Double every line")])
        receipt = await service.receipt(await service.ask("What is the storm rule for the mooring?"))
    assert ("far" in {memory.id for memory in receipt.considered}) is brought


async def test_p9_the_receipt_explains_every_candidate(tmp_path: Path) -> None:
    async with open_service(tmp_path, **OPEN, **PINS, max_items=1) as service:
        await service.put(
            [
                fact("todo", "Repaint the buoy", type="todo"),
                fact("buoy", "The buoy is off Nordskot"),
                fact("other", "The second buoy is off Helligvaer"),
            ]
        )
        result = await service.ask("Where off the coast is the buoy of Nordskot?")
        receipt = await service.receipt(result)
    outcomes = {memory.id: memory for memory in receipt.considered}
    assert receipt.chosen == tuple(ids(result))
    assert (outcomes["todo"].source, outcomes["todo"].verdict) == (ItemSource.PINNED, CandidateVerdict.CHOSEN)
    assert (outcomes["buoy"].source, outcomes["buoy"].verdict) == (ItemSource.CONTEXTUAL, CandidateVerdict.CHOSEN)
    assert SearchKind.MESSAGE in outcomes["buoy"].legs
    assert outcomes["other"].verdict is CandidateVerdict.OVER_ITEMS
    assert None not in (outcomes["buoy"].cosine, outcomes["buoy"].keyword, outcomes["buoy"].relevance)


async def test_p10_a_block_stays_within_its_tokens_with_whole_memories(tmp_path: Path) -> None:
    text = "The logbook of day {} says that the wind turned north and that the crew reefed the sail " + "again " * 20
    stored = {f"m{n}": text.format(n).strip() for n in range(10)}
    async with open_service(tmp_path, **OPEN, max_tokens=200, max_items=10) as service:
        await service.put([fact(key, content) for key, content in stored.items()])
        result = await service.ask("What does the logbook say about the wind and the sail?")
        receipt = await service.receipt(result)
    assert 0 < len(result.items) < 10
    assert estimate_tokens(result.memory_context or "") <= 200
    assert all(item.text == stored[item.id] for item in result.items)
    assert CandidateVerdict.OVER_TOKENS in {memory.verdict for memory in receipt.considered}
