"""Concurrent writers of one memory lose none of their changes, on every store; the server has two clients."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.changes import CHANGES, WANTED
from tests.support.real_servers import engines
from tests.support.service import NOW, as_memory, fact
from tests.support.writers import EMBEDDER, PausedEmbedder, Writers, service, writers_on
from worker.domain.errors import NotFound
from worker.domain.memory import HybridQuery, MemoryFilter
from worker.store.memories import MemoryService

Trial = Callable[[Writers, str], Awaitable[tuple[Any, Any]]]
"""Returns what came of it, and what should have."""


async def shared_out(writers: Writers, calls: list[Callable[[MemoryService], Awaitable[Any]]]) -> list[Any]:
    """Make all calls at once, in turn by each writer."""
    started = (call(writers[place % len(writers)]) for place, call in enumerate(calls))
    return await asyncio.gather(*started, return_exceptions=True)


def updating(key: str, changes: Mapping[str, Any]) -> Callable[[MemoryService], Awaitable[Any]]:
    return lambda writer: writer.update("t1", key, dict(changes))


def faults(answers: list[Any]) -> list[type[Exception]]:
    return [type(one) for one in answers if isinstance(one, Exception)]


async def put(writer: MemoryService, *memories: dict[str, Any]) -> None:
    await writer.put("t1", [as_memory(one) for one in memories])


async def updates(writers: Writers, key: str) -> tuple[Any, Any]:
    await put(writers[0], fact(key, "The gate is green"))
    answers = await shared_out(writers, [updating(key, change) for change in CHANGES])
    (found,) = await writers[0].get("t1", [key])
    told = found.model_dump(mode="json", exclude_defaults=True)
    query = HybridQuery(await EMBEDDER.embed_query("The gate is red now"), None, MemoryFilter(ids=(key,)), 1)
    (hit,) = await writers[1]._engine.tenant("t1").search(query)
    came = ({name: told.get(name) for name in WANTED}, found.version, hit.cosine, faults(answers))
    return came, (WANTED, 2, pytest.approx(1.0, abs=1e-3), [])


async def relations(writers: Writers, key: str) -> tuple[Any, Any]:
    targets = [f"{key}-{number}" for number in range(8)]
    await put(writers[0], fact(key, "The gate is green"), *(fact(one, f"Pier {one}") for one in targets))
    answers = await shared_out(
        writers, [lambda writer, target=target: writer.relate("t1", key, "about", target) for target in targets]
    )
    (found,) = await writers[0].get("t1", [key])
    return (sorted(link.target for link in found.relations), faults(answers)), (sorted(targets), [])


async def deletion(writers: Writers, key: str) -> tuple[Any, Any]:
    await put(writers[0], fact(key, "The gate is green"))
    changing = [updating(key, change) for change in CHANGES]
    deleting: Callable[[MemoryService], Awaitable[Any]] = lambda writer: writer.forget("t1", [key])  # noqa: E731
    answers = await shared_out(writers, [*changing[:4], deleting, *changing[4:]])
    unexpected = [fault for fault in faults(answers) if fault is not NotFound]
    left = [await writer.get("t1", [key]) for writer in writers]
    return (answers[4], unexpected, left), (1, [], [[], []])


async def successors(writers: Writers, key: str) -> tuple[Any, Any]:
    """A memory, two successors and changes of it arrive at the same time: the newer one outdates it."""
    links = [{"kind": "supersedes", "target": key}]
    later = NOW + timedelta(hours=1)
    await put(writers[0], fact(f"{key}-c", "The gate is blue"))
    answers = await shared_out(
        writers,
        [
            lambda writer: put(writer, fact(key, "The gate is green")),
            lambda writer: put(writer, fact(f"{key}-a", "The gate is red", relations=links, created_at=NOW)),
            lambda writer: put(writer, fact(f"{key}-b", "The gate is grey", relations=links, created_at=later)),
            lambda writer: writer.relate("t1", f"{key}-c", "about", f"{key}-c2"),
            lambda writer: writer.update("t1", f"{key}-c", {"importance": 0.7}),
        ],
    )
    (found,) = await writers[0].get("t1", [key])
    return (found.superseded_by, found.superseded_at, faults(answers)), (f"{key}-b", later, [NotFound])


async def one_creation(writers: Writers, key: str) -> tuple[Any, Any]:
    """The same sentence remembered ten times at once is created once, and a change of it meanwhile stays."""
    memory = as_memory(fact(key, f"Sentence {key}"))
    remember: Callable[[MemoryService], Awaitable[Any]] = lambda writer: writer.remember(  # noqa: E731
        "t1", memory, now=NOW, keep_same=True
    )

    async def change(writer: MemoryService) -> None:
        while not await writer.get("t1", [key]):
            await asyncio.sleep(0)
        await writer.update("t1", key, {"importance": 0.9})

    reports = await shared_out(writers, [*[remember] * 5, change, *[remember] * 5])
    created = [report.created for report in reports if report is not None].count((key,))
    (found,) = await writers[1].get("t1", [key])
    return (created, found.importance), (1, 0.9)


async def meanwhile(writers: Writers, call: Callable[[MemoryService], Awaitable[Any]], change: Awaitable[Any]) -> None:
    """Make a change between the moment when a call has read the memory and the moment when it writes it."""
    embedder = PausedEmbedder()
    calling = asyncio.ensure_future(call(service(writers[0]._engine, embedder)))
    await embedder.asked.wait()
    await change
    embedder.go_on.set()
    await calling


async def a_new_text_after_another_change(writers: Writers, key: str) -> tuple[Any, Any]:
    await put(writers[0], fact(key, "The gate is green"))
    rewording = updating(key, {"content": "The gate is red now"})
    await meanwhile(writers, rewording, writers[1].update("t1", key, {"importance": 0.9}))
    (found,) = await writers[1].get("t1", [key])
    return (found.content, found.importance), ("The gate is red now", 0.9)


TRIALS: tuple[Trial, ...] = (updates, relations, deletion, successors, one_creation, a_new_text_after_another_change)


ROUNDS = int(os.environ.get("PARALLEL_ROUNDS", "6"))
"""Rounds of one trial of every kind; 200 are 1,200 trials, which take the server's double minutes."""


@pytest.mark.parametrize("engine", engines("edge", "rest", "server"))
@pytest.mark.timeout(300 + 5 * ROUNDS)
async def test_concurrent_writers_of_a_memory_lose_nothing(engine: str, tmp_path: Path) -> None:
    async with writers_on(engine, tmp_path) as writers:
        for number in range(ROUNDS):
            for trial in TRIALS:
                came, wanted = await trial(writers, f"{trial.__name__}{number}")
                assert came == wanted, trial.__name__
