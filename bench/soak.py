"""Hours of mixed load: whether memory, descriptors, Redis keys or latencies grow."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from statistics import median

from redis.asyncio import Redis
from rich.progress import Progress

from hooks import PreExecutionHook
from hooks.queue import QueueClient, QueueFault
from worker.operations.registry import FORGET, PUT, RECALL, SESSION_EVENT

from .callers import Tally
from .corpus import TENANT, messages
from .measure import Check, LineChart, Result, Series, Table, percentile
from .options import Options
from .processes import Service, running_service, scratch
from .progress import bar
from .stores import make_store

NAME = "soak"
MEMORIES, QUICK_MEMORIES = 10_000, 100
SAMPLES, QUICK_SAMPLES = 120, 15
SAMPLE_S, QUICK_SAMPLE_S = 60.0, 0.1
RATE, QUICK_RATE = 4.0, 40.0
"""Calls a second, sent at random times."""

SESSIONS, TURNS = 40, 20
"""Sessions at a time, and the turns after which one is cleared."""

WRITE_EVERY, RECALL_EVERY, KEPT = 10, 7, 50
"""Every so many calls a memory is stored and the oldest of those kept is deleted, or a search is made."""

KEPT_S = 600
"""Seconds for which receipts and ledgers are kept, so that as many end as begin."""

SETTINGS = f"receipt_ttl_s = {KEPT_S}\nledger_ttl_s = {KEPT_S}\n"
MOST_GROWTH = 1.05
MOST_SLOWER = 1.2
DEADLINE_MS = 3000


@dataclass(slots=True)
class Samples:
    """What was seen at the end of each interval."""

    resident_mb: list[float] = field(default_factory=list)
    own_mb: list[float] = field(default_factory=list)
    descriptors: list[float] = field(default_factory=list)
    redis_keys: list[float] = field(default_factory=list)
    redis_mb: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p95_ms: list[float] = field(default_factory=list)


def run(options: Options, progress: Progress) -> Result:
    memories = QUICK_MEMORIES if options.quick else MEMORIES
    with scratch() as data_dir:
        make_store(data_dir, memories, options.out / "cache", progress)
        with running_service(data_dir, "--model", "none", settings=SETTINGS) as service:
            return asyncio.run(_measure(service, memories, progress, quick=options.quick))


async def _measure(service: Service, memories: int, progress: Progress, *, quick: bool) -> Result:
    seconds, rate = (QUICK_SAMPLE_S, QUICK_RATE) if quick else (SAMPLE_S, RATE)
    intervals = QUICK_SAMPLES if quick else SAMPLES
    samples, redis = Samples(), Redis.from_url(service.url)
    try:
        async with PreExecutionHook(service.url) as hook:
            load = _Load(service.url, hook)
            with bar(progress, NAME, intervals) as advance:
                for _ in range(intervals):
                    spent = await load.during(seconds, rate)
                    await _sample(samples, service, redis, spent)
                    advance()
            await load.aclose()
    finally:
        await redis.aclose()
    return _result(samples, load, memories, intervals, seconds, rate)


class _Load:
    """Turns of many sessions, writes, deletions and searches."""

    def __init__(self, url: str, hook: PreExecutionHook) -> None:
        self._hook = hook
        self._client = QueueClient(url)
        self._texts = messages()
        self._numbers = count(1)
        self._stored: list[str] = []
        self._random = random.Random(11)
        self.ends: Counter[str] = Counter()
        self.lost = self.failed = 0

    async def aclose(self) -> None:
        await self._client.aclose()

    async def during(self, seconds: float, rate: float) -> list[float]:
        """Send requests at random times; return the milliseconds of each answered turn since it was due."""
        start, tally = time.perf_counter(), Tally()
        await asyncio.gather(*(self._send(start + at, tally) for at in self._times(seconds, rate)))
        await asyncio.sleep(max(0.0, start + seconds - time.perf_counter()))
        self.ends += tally.ends
        self.lost += tally.lost
        return tally.spent

    def _times(self, seconds: float, rate: float) -> Iterator[float]:
        at = self._random.expovariate(rate)
        while at < seconds:
            yield at
            at += self._random.expovariate(rate)

    async def _send(self, due: float, tally: Tally) -> None:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        number = next(self._numbers)
        session = f"soak {number % SESSIONS}"
        fields = {"agent_id": f"agent {number % 5}", "scope": {"tenant": TENANT}, "deadline_ms": DEADLINE_MS}
        result = await self._hook({"session_id": session, "message": next(self._texts), **fields})
        tally.add(result, (time.perf_counter() - due) * 1000)
        try:
            await self._besides(number, session)
        except QueueFault:
            self.failed += 1

    async def _besides(self, number: int, session: str) -> None:
        if number // SESSIONS % TURNS == TURNS - 1:
            event = {"type": "session.cleared", "session_id": session, "tenant": TENANT}
            await self._client.ask(SESSION_EVENT.name, event, budget=10.0)
        if number % RECALL_EVERY == 0:
            await self._client.ask(RECALL.name, {"scope": {"tenant": TENANT}, "query": next(self._texts)}, budget=10.0)
        if number % WRITE_EVERY == 0:
            await self._write(f"soak-{number}", number)

    async def _write(self, key: str, number: int) -> None:
        memory = {"id": key, "content": f"Note {number}: {next(self._texts)}"}
        await self._client.ask(PUT.name, {"tenant": TENANT, "memories": [memory]}, budget=10.0)
        self._stored.append(key)
        if len(self._stored) > KEPT:
            oldest = {"tenant": TENANT, "ids": [self._stored.pop(0)], "permanent": True}
            await self._client.ask(FORGET.name, oldest, budget=10.0)


async def _sample(samples: Samples, service: Service, redis: "Redis", spent: list[float]) -> None:
    memory, held = await redis.info("memory"), service.held()
    samples.resident_mb.append(held.resident_mb)
    samples.own_mb.append(held.own_mb)
    samples.descriptors.append(float(held.descriptors))
    samples.redis_keys.append(float(await redis.dbsize()))
    samples.redis_mb.append(memory["used_memory"] / 2**20)
    if spent:
        samples.p50_ms.append(percentile(spent, 0.5))
        samples.p95_ms.append(percentile(spent, 0.95))


def _result(samples: Samples, load: _Load, memories: int, intervals: int, seconds: float, rate: float) -> Result:
    kinds = {
        "resident memory": (samples.resident_mb, "MB", MOST_GROWTH),
        "memory of its own": (samples.own_mb, "MB", MOST_GROWTH),
        "open descriptors": (samples.descriptors, "", MOST_GROWTH),
        "keys in Redis": (samples.redis_keys, "", MOST_GROWTH),
        "memory of Redis": (samples.redis_mb, "MB", MOST_GROWTH),
        "p50 of a turn": (samples.p50_ms, "ms", MOST_SLOWER),
        "p95 of a turn": (samples.p95_ms, "ms", MOST_SLOWER),
    }
    rows = tuple((name, unit, *(f"{one:.1f}" for one in _thirds(found))) for name, (found, unit, _) in kinds.items())
    growth = tuple(
        Check(name=f"{name}, last third by middle third", measured=_growth(found), limit=limit, unit="times")
        for name, (found, _, limit) in kinds.items()
    )
    return Result(
        name=NAME,
        title="Soak",
        method=(
            f"One service without a model, {memories:,} memories, {intervals * seconds / 60:.0f} minutes of {rate:g} "
            f"calls of the hook a second at random times, each with a new message, in {SESSIONS} sessions that are "
            f"cleared after {TURNS} turns; a memory is stored and one deleted at every {WRITE_EVERY}th call, a search "
            f"is made at every {RECALL_EVERY}th. Receipts and ledgers are kept for {KEPT_S} s. Latency counts from "
            "when a call was due. The first third fills caches."
        ),
        checks=(
            Check(name="turns without an answer", measured=load.lost, limit=0, unit=f"of {load.ends.total()}"),
            Check(name="failed writes, searches and events", measured=load.failed, limit=0, unit=""),
            *growth,
        ),
        series=tuple(Series.of(name, found, unit) for name, (found, unit, _) in kinds.items()),
        notes=("Turns ended: " + ", ".join(f"{number} {end}" for end, number in load.ends.most_common()) + ".",),
        tables=(Table(title="Medians", heads=("", "unit", "first third", "middle third", "last third"), rows=rows),),
        lines=(
            LineChart(name="memory", title="Memory", series=("resident memory", "memory of its own"), every_s=seconds),
            LineChart(name="latency", title="Latency", series=("p50 of a turn", "p95 of a turn"), every_s=seconds),
        ),
    )


def _thirds(found: list[float]) -> tuple[float, float, float]:
    third = max(1, len(found) // 3)
    return median(found[:third]), median(found[third : 2 * third] or found), median(found[-third:])


def _growth(found: list[float]) -> float:
    _, middle, last = _thirds(found)
    return round(last / middle, 3)
