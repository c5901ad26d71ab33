"""Share of the essential memories among the candidates: the upper limit of any selection."""

import asyncio
import math
import random
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median

from rich.progress import Progress

from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.deadline import Deadline
from worker.domain.kinds import SortKey
from worker.domain.memory import Hit, HybridQuery, MemoryFilter, StoredMemory
from worker.domain.timings import Stages
from worker.domain.vectors import exact
from worker.domain.visibility import visible_to
from worker.query.focus import focus
from worker.recall.recall import Recall, RecallScope
from worker.recall.searches import first_query
from worker.settings.injection import Enrichment, InjectionConfig
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

from .measure import Check, Result, Series, Table
from .options import Options
from .progress import bar
from .worlds import Opened, opened

NAME = "pool"
SIZES = (20, 30)
LIMITS = {20: 0.92, 30: 0.95}
MAX_ADDED_MS = 15.0
DEADLINE_S = 30.0
PLAIN_BOOSTS = (0.1, 0.05, 90.0)
"""Score boosts of importance and recency in the plain search, and the half-life in days."""


@dataclass(slots=True)
class Tally:
    """Essential memories in total and among the first 20 and 30, and latencies in milliseconds."""

    essential: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    found: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    spent: list[float] = field(default_factory=list)

    def add(self, task: LabelledTask, ids: Sequence[str], spent: float) -> None:
        for category in (task.category, "all"):
            self.essential[category] += len(task.essential)
            for size in SIZES:
                self.found[category, size] += len(task.essential & set(ids[:size]))
        self.spent.append(spent)

    def share(self, category: str, size: int) -> float:
        return self.found[category, size] / self.essential[category]


def run(options: Options, progress: Progress) -> Result:
    """Run every search for every task with essential memories."""
    return asyncio.run(_run(options, progress))


async def _run(options: Options, progress: Progress) -> Result:
    plain, complete, filtered = Tally(), Tally(), Tally()
    async with opened(options.worlds, progress, quick=options.quick) as world_store:
        for world in world_store.worlds:
            await _store_plain(world_store, world)
        tasks = [(world, task) for world in world_store.worlds for task in world.tasks if task.essential]
        with bar(progress, "pool", len(tasks)) as advance:
            for world, task in tasks:
                searches = [(plain, _plain), (complete, _complete), (filtered, _filtered)]
                random.shuffle(searches)
                for tally, search in searches:
                    start = time.perf_counter()
                    ids = await search(world_store, world, task)
                    tally.add(task, ids, (time.perf_counter() - start) * 1000)
                advance()
    return _result(options, len(world_store.worlds), plain, complete, filtered)


def _plain_tenant(world: LabelledWorld) -> str:
    return f"{world.name}: plain"


async def _store_plain(world_store: Opened, world: LabelledWorld) -> None:
    """Store the memories again, with only their content as keywords."""
    hits = await world_store.engine.tenant(world.name).ordered(MemoryFilter(), SortKey.RECENT, limit=500)
    words = world_store.sparse.passage
    stored = [StoredMemory(hit.memory, exact(hit.vector), words(hit.memory.content)) for hit in hits]
    await world_store.engine.tenant(_plain_tenant(world)).put(stored)


async def _plain(world_store: Opened, world: LabelledWorld, task: LabelledTask) -> list[str]:
    """Run one hybrid search for the message alone, with weighted fusion."""
    config = InjectionConfig(query_enrichment=Enrichment.OFF, query_task=False)
    query = focus(task.request, config).query
    where = MemoryFilter(_scope(world, task).visibility)
    wanted = HybridQuery(
        await world_store.embedder.embed_query(query), world_store.sparse.query(query), where, max(SIZES)
    )
    hits = await world_store.engine.tenant(_plain_tenant(world)).search(wanted)
    return [hit.memory.id for hit in sorted(hits, key=lambda hit: -_plain_score(hit, task))]


def _plain_score(hit: Hit, task: LabelledTask) -> float:
    importance, recency, half_life = PLAIN_BOOSTS
    keyword = hit.keyword or 0.0
    fused = 0.6 * max(0.0, hit.cosine or 0.0) + 0.4 * keyword / (keyword + 8.0)
    made, now = hit.memory.created_at, task.request.now
    days = (now - made).total_seconds() / 86_400 if made and now else math.inf
    return fused * (1.0 + importance * hit.memory.importance + recency * math.exp2(-days / half_life))


def _scope(world: LabelledWorld, task: LabelledTask) -> RecallScope:
    request = task.request
    assert request.now is not None
    visibility = visible_to(request.scope, request.agent_id, world.shared_users, request.now, replay=True)
    return RecallScope(world.name, visibility, request.now, request.scope.channel)


async def _complete(world_store: Opened, world: LabelledWorld, task: LabelledTask) -> list[str]:
    return await _recalled(world_store, world, task, InjectionConfig(contextual_min_score=-1.0, recall_min_score=-1.0))


async def _filtered(world_store: Opened, world: LabelledWorld, task: LabelledTask) -> list[str]:
    return await _recalled(world_store, world, task, InjectionConfig())


async def _recalled(
    world_store: Opened, world: LabelledWorld, task: LabelledTask, config: InjectionConfig
) -> list[str]:
    """Run the recall of a request with all its searches."""
    recall = _recall_of(world_store)
    query = first_query(task.request, focus(task.request, config), config)
    deadline, stages = Deadline.after(DEADLINE_S), Stages()
    recalled = await recall(query, _scope(world, task), config, deadline, stages)
    return [candidate.memory.id for candidate in recalled.candidates]


_RECALLS: dict[int, tuple[EdgeStore, Recall]] = {}


def _recall_of(world_store: Opened) -> Recall:
    """Return one recall per store, which caches the number of memories per tenant."""
    kept = _RECALLS.get(id(world_store.engine))
    if kept is None or kept[0] is not world_store.engine:
        kept = (world_store.engine, Recall(world_store.engine, world_store.sparse, world_store.embedder))
        _RECALLS[id(world_store.engine)] = kept
    return kept[1]


def _result(options: Options, worlds: int, plain: Tally, complete: Tally, filtered: Tally) -> Result:
    tallies = {"plain": plain, "complete": complete, "filtered": filtered}
    checks = [
        Check(name=f"essential in the first {size}", measured=100 * complete.share("all", size), limit=100 * limit)
        for size, limit in LIMITS.items()
    ]
    more = median(complete.spent) - median(plain.spent)
    return Result(
        name=NAME,
        title="Essential memories among the candidates",
        method=(
            f"Labelled worlds ({worlds}, one tenant each), every task with essential memories, at its own time. Plain: "
            "one hybrid search for the message alone, with weighted fusion of dense and keyword hits. Complete: the "
            "recall of a request with all its searches, without thresholds. Filtered: the same with the default "
            "thresholds. All in one run, in shuffled order, without caches."
        ),
        checks=(
            *(check.model_copy(update={"unit": "%", "at_least": True}) for check in checks),
            Check(name="milliseconds above plain, median", measured=round(more, 2), limit=MAX_ADDED_MS),
        ),
        series=tuple(Series.of(f"{name} search", tally.spent) for name, tally in tallies.items()),
        tables=(_table(options, tallies),),
    )


def _table(options: Options, tallies: dict[str, Tally]) -> Table:
    heads = [f"{name}, {size}" for name in tallies for size in SIZES]
    essential = tallies["plain"].essential
    rows = [
        (
            category,
            str(essential[category]),
            *(f"{tally.share(category, size):.3f}" for tally in tallies.values() for size in SIZES),
        )
        for category in sorted(essential, key=lambda name: (name == "all", name))
    ]
    title = f"Share of the essential memories in the first 20 and 30 ({options.worlds.name})"
    return Table(title=title, heads=("category", "essential", *heads), rows=tuple(rows))
