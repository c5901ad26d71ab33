"""Several worker processes on one Redis and one Qdrant server: answers a second, and how long each takes."""

import asyncio
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from qdrant_client import QdrantClient
from rich.progress import Progress

from hooks import PreExecutionHook
from hooks.queue import QueueClient
from worker.operations.registry import PUT

from .corpus import TENANT, memories, messages
from .deterministic import ANSWERED
from .measure import Result, Series
from .options import Options
from .processes import BenchError, running, running_valkey, scratch
from .progress import bar

NAME = "workers"
VARIABLE = "QDRANT_URL"
WORKERS = (1, 2, 4)
CALLERS = 8
WARM_UP = 24
MEMORIES, QUICK_MEMORIES = 2_000, 100
LOAD_S, QUICK_LOAD_S = 20.0, 1.0
BATCH = 100
WRITE_S = 120.0

METHOD = (
    "From the call of the hook to the block, without a model, with one Valkey, one Qdrant server and one to four "
    f"workers of one process each. {CALLERS} callers without pauses; every message is new to the embedder and in a new "
    "session. "
    "Callers, workers, Valkey and Qdrant share the cores of one machine."
)


@dataclass(slots=True)
class Tally:
    """Latencies of complete answers in milliseconds, the seconds measured, and counts of all outcomes."""

    spent: list[float] = field(default_factory=list)
    seconds: float = 0.0
    outcomes: "Counter[str]" = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Place:
    """What the workers share."""

    redis: str
    qdrant: str
    collection: str
    folder: Path


def run(options: Options, progress: Progress) -> Result:
    """Store memories with one worker, then measure one number of workers after the other."""
    url = os.environ.get(VARIABLE)
    if not url:
        raise BenchError(f"set {VARIABLE} to a Qdrant server; the benchmark makes a collection of its own")
    client = QdrantClient(url=url, check_compatibility=False)
    with scratch() as folder, running_valkey() as redis:
        place = Place(redis, url, f"bench-{uuid4().hex}", folder)
        try:
            return _result(_measured(place, options, progress), _version(client), options)
        finally:
            client.delete_collection(place.collection)
            client.close()


def _measured(place: Place, options: Options, progress: Progress) -> dict[int, Tally]:
    size, seconds = (QUICK_MEMORIES, QUICK_LOAD_S) if options.quick else (MEMORIES, LOAD_S)
    texts = enumerate(messages())
    found: dict[int, Tally] = {}
    with ExitStack() as workers:
        workers.enter_context(_worker(place, 1))
        asyncio.run(_fill(place.redis, size, progress))
        for number in WORKERS:
            for more in range(max(found, default=1) + 1, number + 1):
                workers.enter_context(_worker(place, more))
            with bar(progress, f"workers: {number}", 1) as advance:
                found[number] = asyncio.run(_loaded(place.redis, texts, seconds))
                advance()
    return found


def _worker(place: Place, number: int) -> AbstractContextManager[str]:
    config = place.folder / f"{number}.toml"
    where = f'redis_url = "{place.redis}"\nqdrant_url = "{place.qdrant}"\ncollection = "{place.collection}"\n'
    config.write_text(f"[service]\n{where}", encoding="utf-8")
    data_dir = str(place.folder / str(number))
    command = [sys.executable, "-m", "worker", "--data-dir", data_dir, "--config", str(config)]
    return running([*command, "admin", "worker", "--model", "none", "--json"], "}")


async def _fill(redis: str, size: int, progress: Progress) -> None:
    client, batch = QueueClient(redis), list[dict[str, object]]()
    try:
        with bar(progress, "workers: memories", size) as advance:
            for memory in memories(size):
                batch.append(memory.model_dump(mode="json", exclude_defaults=True))
                advance()
                if len(batch) == BATCH:
                    await client.ask(PUT.name, {"tenant": TENANT, "memories": batch}, budget=WRITE_S, ack_timeout=5.0)
                    batch = []
    finally:
        await client.aclose()


async def _loaded(redis: str, texts: Iterator[tuple[int, str]], seconds: float) -> Tally:
    async with PreExecutionHook(redis) as hook:
        await asyncio.gather(*(_called(hook, texts, Tally()) for _ in range(WARM_UP)))
        tally, start = Tally(), time.perf_counter()

        async def caller() -> None:
            while time.perf_counter() - start < seconds:
                await _called(hook, texts, tally)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        tally.seconds = time.perf_counter() - start
        return tally


async def _called(hook: PreExecutionHook, texts: Iterator[tuple[int, str]], tally: Tally) -> None:
    number, message = next(texts)
    start = time.perf_counter()
    result = await hook({"session_id": f"session {number}", "message": message, "scope": {"tenant": TENANT}})
    elapsed = (time.perf_counter() - start) * 1000
    complete = result.outcome in ANSWERED and not result.degraded
    tally.outcomes[result.outcome.value if complete else str(result.reason)] += 1
    if complete:
        tally.spent.append(elapsed)


def _version(client: QdrantClient) -> str:
    return client.info().version


def _result(found: dict[int, Tally], version: str, options: Options) -> Result:
    series = list[Series]()
    for number, tally in found.items():
        if not tally.spent:
            raise BenchError(f"{number} workers: no complete answers, only {dict(tally.outcomes)}")
        series.append(Series.of(f"{number} workers, {CALLERS} callers", tally.spent))
        series.append(Series.of(f"{number} workers: answers", [len(tally.spent) / tally.seconds], "answers/s"))
    size = QUICK_MEMORIES if options.quick else MEMORIES
    notes = [f"Qdrant {version}, {size:,} memories."]
    for number, tally in found.items():
        counts = ", ".join(f"{count} {name}" for name, count in tally.outcomes.most_common())
        notes.append(f"Answers of {number} workers: {counts}.")
    return Result(
        name=NAME, title="Several workers", method=METHOD, checks=(), series=tuple(series), notes=tuple(notes)
    )
