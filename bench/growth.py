"""How answers, memory and disk grow with the number of memories, in the embedded store and on a Qdrant server."""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from uuid import uuid4

from qdrant_client import QdrantClient, models
from rich.progress import Progress

from hooks import PreExecutionHook
from worker.settings.service import ServiceSettings

from .callers import DEADLINE_MS, Load, Tally
from .corpus import tenants
from .measure import CurveChart, Result, Series, Table
from .options import Options
from .processes import BenchError, Held, running_service, scratch
from .progress import bar
from .stores import EMBEDDED, fill
from .workers import VARIABLE

NAME = "growth"
CALLERS = 8
SECONDS, QUICK_SECONDS = 20.0, 0.3
"""Seconds of calls by one caller, and then by all."""

WARM_UP = 0.25
"""Share of those seconds in which one caller calls before."""

MOST = "QDRANT_MOST"
"""Variable with the most memories to store on the server."""

INDEXED_S = 3600.0
"""Seconds for which to wait until the server has indexed its memories."""

METHOD = (
    "One service without a model at a time, each with a store of its own, through the hook and the queue: first "
    f"{SECONDS:.0f} seconds of one caller, then of {CALLERS}, without pauses. Every message is new and in a new "
    f"session, {DEADLINE_MS:,} ms each; with many tenants, each is of one of them, at random. Stages are medians of "
    "one caller, and processor time is the mean. The memory is that of the service after all calls; files of the store "
    "and of libraries are not its own. It is ready when `meeseeks up` says so, with a full store whose files the "
    "system still has in memory. Memories are stored with ready-made vectors, in batches as the service does. With "
    f"`--full` there are up to 1,000,000 memories; with `{VARIABLE}`, the same on that server, up to `{MOST}`. For 1 "
    "to 200 callers, see [below](#many-callers)."
)
NOISE = (
    f"Beyond the first {EMBEDDED:,} memories, vectors are copies of the first ones with noise added; texts and keyword "
    "vectors are always real."
)


@dataclass(frozen=True, slots=True)
class Case:
    """A store with so many memories in all, evenly divided among its tenants."""

    memories: int
    owners: int = 1
    server: bool = False

    @property
    def kind(self) -> str:
        """Return what has the same curve."""
        where = "Qdrant server" if self.server else "embedded store"
        return where if self.owners == 1 else f"{where}, {self.owners:,} tenants"

    @property
    def label(self) -> str:
        return f"{self.kind}, {self.memories:,} memories"


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured of a case; a server's folder is not known."""

    stored_per_s: float
    disk_mb: float | None
    ready_s: float
    held: Held
    alone: Tally
    crowd: Tally


QUICK = (Case(100), Case(200, owners=2))
USUAL = (Case(1_000), Case(10_000), Case(100_000))
FULL = (*USUAL, Case(1_000_000), Case(1_000_000, owners=1_000))


def run(options: Options, progress: Progress) -> Result:
    found = {}
    for case in cases(options):
        with scratch() as folder, _settings(case, folder) as service:
            found[case] = _measured(case, service, options, progress)
    return _result(found)


def cases(options: Options) -> tuple[Case, ...]:
    """Return the stores to measure: those on a server only if one is named."""
    embedded = QUICK if options.quick else FULL if options.full else USUAL
    if not os.environ.get(VARIABLE):
        return embedded
    most = os.environ.get(MOST, str(FULL[-1].memories))
    if not most.isdecimal():
        raise BenchError(f"{MOST}: not a number of memories, such as 100000: {most}")
    return (*embedded, *(Case(one.memories, one.owners, server=True) for one in embedded if one.memories <= int(most)))


@contextmanager
def _settings(case: Case, folder: Path) -> Iterator[ServiceSettings]:
    """Yield the settings of a service; delete its collection in the end."""
    if not case.server:
        yield ServiceSettings(data_dir=folder)
        return
    url, collection = os.environ[VARIABLE], f"bench-{uuid4().hex}"
    client = QdrantClient(url=url, check_compatibility=False)
    try:
        yield ServiceSettings(data_dir=folder, qdrant_url=url, collection=collection)
    finally:
        client.delete_collection(collection)
        client.close()


def _measured(case: Case, service: ServiceSettings, options: Options, progress: Progress) -> Found:
    seconds = asyncio.run(fill(service, case.memories, options.out / "cache", progress, case.owners))
    disk_mb: float | None = _megabytes(service.home)
    settings = ""
    if service.qdrant_url is not None:
        _indexed(service.qdrant_url, service.collection)
        disk_mb = None
        settings = f'qdrant_url = "{service.qdrant_url}"\ncollection = "{service.collection}"\n'
    start = time.perf_counter()
    with running_service(service.home, "--model", "none", settings=settings) as running:
        ready_s = time.perf_counter() - start

        async def calls() -> tuple[Tally, Tally]:
            each = QUICK_SECONDS if options.quick else SECONDS
            async with PreExecutionHook(running.url) as hook:
                load = Load(running, hook, tenants(case.owners))
                await load.closed(1, each * WARM_UP)
                with bar(progress, case.label, 2) as advance:
                    alone = await load.closed(1, each)
                    advance()
                    return alone, await load.closed(CALLERS, each)

        alone, crowd = asyncio.run(calls())
        if not alone.spent:
            raise BenchError(f"{case.label}: no answers, only {dict(alone.ends)}")
        return Found(case.memories / seconds, disk_mb, ready_s, running.held(), alone, crowd)


def _megabytes(folder: Path) -> float:
    """Return the disk that the files take, without holes."""
    return sum(path.stat().st_blocks for path in folder.rglob("*")) * 512 / 2**20


def _indexed(url: str, collection: str) -> None:
    """Wait until the server has indexed what it stored."""
    client, end = QdrantClient(url=url, check_compatibility=False), time.perf_counter() + INDEXED_S
    try:
        while client.get_collection(collection).status is not models.CollectionStatus.GREEN:
            if time.perf_counter() > end:
                raise BenchError(f"the server had not indexed {collection} after {INDEXED_S:.0f} s")
            time.sleep(1.0)
    finally:
        client.close()


def _result(found: dict[Case, Found]) -> Result:
    series = [Series.of(case.label, one.alone.spent) for case, one in found.items()]
    series += [
        Series.of(f"{case.label}: {stage}", one.alone.stages[stage])
        for case, one in found.items()
        for stage in ("search", "links")
        if stage in one.alone.stages
    ]
    return Result(
        name=NAME,
        title="Growth",
        method=METHOD,
        checks=(),
        series=tuple(series),
        notes=(*_growths(found), *([NOISE] if any(case.memories > EMBEDDED for case in found) else [])),
        tables=_tables(found),
        curves=_curves(found),
    )


def _growths(found: dict[Case, Found]) -> Iterator[str]:
    """Yield how much longer answers take from the smallest to the largest store of one kind."""
    for kind in dict.fromkeys(case.kind for case in found):
        same = [(case, one) for case, one in found.items() if case.kind == kind]
        (small, first), (large, last) = same[0], same[-1]
        if small is not large:
            times = last.alone.at(0.5) / first.alone.at(0.5)
            yield f"{kind.capitalize()}, {small.memories:,} to {large.memories:,} memories: p50 × {times:.1f}."


def _tables(found: dict[Case, Found]) -> tuple[Table, ...]:
    answers = ("", "p50 ms", "p95 ms", "search ms", "links ms", "processor ms", "lost", f"{CALLERS} callers: answers/s")
    sizes = ("", "own MB", "resident MB", "descriptors", "on disk MB", "s until ready", "memories stored/s")
    return (
        Table(
            title="Answers",
            heads=(*answers, "p95 ms", "lost"),
            rows=tuple(_answers(*item) for item in found.items()),
        ),
        Table(title="Service and store", heads=sizes, rows=tuple(_sizes(*item) for item in found.items())),
    )


def _answers(case: Case, one: Found) -> tuple[str, ...]:
    alone, crowd = one.alone, one.crowd
    return (
        case.label,
        f"{alone.at(0.5):.0f}",
        f"{alone.at(0.95):.0f}",
        f"{_stage(one, 'search'):.1f}",
        f"{_stage(one, 'links'):.1f}",
        f"{alone.processor_ms / len(alone.spent):.0f}",
        f"{alone.lost} of {alone.ends.total()}",
        f"{crowd.rate:.1f}",
        f"{crowd.at(0.95):.0f}" if crowd.spent else "none",
        f"{crowd.lost} of {crowd.ends.total()}",
    )


def _sizes(case: Case, one: Found) -> tuple[str, ...]:
    return (
        case.label,
        f"{one.held.own_mb:,.0f}",
        f"{one.held.resident_mb:,.0f}",
        f"{one.held.descriptors}",
        "unknown" if one.disk_mb is None else f"{one.disk_mb:,.0f}",
        f"{one.ready_s:.1f}",
        f"{one.stored_per_s:,.0f}",
    )


def _stage(one: Found, name: str) -> float:
    return median(one.alone.stages.get(name) or [0.0])


def _curves(found: dict[Case, Found]) -> tuple[CurveChart, ...]:
    latency: dict[str, Callable[[Found], float | None]] = {
        "p50": lambda one: one.alone.at(0.5),
        "p95": lambda one: one.alone.at(0.95),
        "search": lambda one: _stage(one, "search"),
        "links": lambda one: _stage(one, "links"),
    }
    sizes: dict[str, Callable[[Found], float | None]] = {
        "resident": lambda one: one.held.resident_mb,
        "its own": lambda one: one.held.own_mb,
        "on disk": lambda one: one.disk_mb,
    }
    rates: dict[str, Callable[[Found], float | None]] = {
        "answers/s": lambda one: one.crowd.rate,
        "processor ms": lambda one: one.alone.processor_ms / len(one.alone.spent),
    }
    return (
        _chart(found, "latency", "Answer to one caller", "ms", latency),
        _chart(found, "rate", f"Answers to {CALLERS} callers, and processor time of one", "answers/s, or ms", rates),
        _chart(found, "memory", "Memory of the service, and its folder", "MB", sizes),
    )


def _chart(
    found: dict[Case, Found], name: str, title: str, unit: str, values: dict[str, Callable[[Found], float | None]]
) -> CurveChart:
    """Return a curve of each value of each kind of store, without what is unknown or nothing."""
    curves: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {}
    for case, one in found.items():
        same = curves.setdefault(case.kind, {})
        for what, value in values.items():
            if amount := value(one):
                same[what] = (*same.get(what, ()), (float(case.memories), round(amount, 3)))
    return CurveChart(name=name, title=title, curves=curves, x_name="memories, logarithmic", y_name=unit)
