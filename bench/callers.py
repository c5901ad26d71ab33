"""Many callers at once: who is answered, by what, and how long a quiet caller waits beside a flood."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from rich.progress import Progress

from hooks import Engine, InjectionResult, Outcome, PreExecutionHook

from .corpus import TENANT, messages
from .measure import Check, CurveChart, Result, Series, Table, percentile
from .options import Options
from .processes import Service, running_service, scratch
from .progress import bar
from .stores import make_store

NAME = "callers"
MEMORIES, QUICK_MEMORIES = 10_000, 200
CALLERS, QUICK_CALLERS = (1, 8, 40, 200), (1, 8)
SECONDS, QUICK_SECONDS = 10.0, 1.0
DEADLINE_MS = 3000
OPEN_SHARES = (0.5, 0.8, 1.2)
"""Requests sent per second in the open loop, as shares of the rate of 8 callers."""

FLOOD = 40
QUIET_PAUSE_S = 0.05
MOST_QUIET_RATIO = 3.0
SHARED = "Callers and service share the cores: what the callers spend on calls that are refused, the service lacks."
ANSWERED = (Outcome.INJECTED, Outcome.NONE_RELEVANT, Outcome.ALL_DUPLICATE)

_numbers = count()


@dataclass(slots=True)
class Tally:
    """Latencies of answered calls in milliseconds, and how all calls ended."""

    spent: list[float] = field(default_factory=list)
    ends: "Counter[str]" = field(default_factory=Counter)
    seconds: float = 0.0
    processor_ms: float = 0.0
    stages: dict[str, list[float]] = field(default_factory=dict)
    """Milliseconds of each stage of the answered calls."""

    def add(self, result: InjectionResult, milliseconds: float) -> None:
        if result.outcome in ANSWERED:
            self.spent.append(milliseconds)
            for name, part in result.stages.items():
                self.stages.setdefault(name, []).append(part)
        self.ends[_end_of(result)] += 1

    @property
    def rate(self) -> float:
        return len(self.spent) / self.seconds

    @property
    def lost(self) -> int:
        return self.ends.total() - len(self.spent)

    def at(self, share: float) -> float:
        return percentile(self.spent, share) if self.spent else float("inf")

    def row(self, name: str) -> tuple[str, ...]:
        unchosen = {end: number for end, number in self.ends.items() if end != Engine.RELEVANCE_MODEL}
        others = ", ".join(f"{number} {end}" for end, number in sorted(unchosen.items())) or "none"
        each = self.processor_ms / max(1, len(self.spent))
        times = (f"{self.at(share):.0f}" for share in (0.5, 0.95, 0.99))
        return name, f"{self.rate:.0f}", *times, f"{self.lost} of {self.ends.total()}", others, f"{each:.1f}"


HEADS = (
    "",
    "answers/s",
    "p50 ms",
    "p95 ms",
    "p99 ms",
    "lost",
    "not chosen by the relevance model",
    "processor ms each",
)


def _end_of(result: InjectionResult) -> str:
    if result.outcome not in ANSWERED:
        return f"{result.outcome} {result.reason}"
    if result.degraded:
        return f"degraded {result.reason}"
    return result.engine if result.engine is not Engine.NONE else f"{result.outcome} {result.reason}"


def run(options: Options, progress: Progress) -> Result:
    with scratch() as data_dir:
        memories = QUICK_MEMORIES if options.quick else MEMORIES
        make_store(data_dir, memories, options.out / "cache", progress)
        with running_service(data_dir, "--model", "none") as service:
            return asyncio.run(_measure(service, memories, progress, quick=options.quick))


async def _measure(service: Service, memories: int, progress: Progress, *, quick: bool) -> Result:
    callers = QUICK_CALLERS if quick else CALLERS
    seconds = QUICK_SECONDS if quick else SECONDS
    async with PreExecutionHook(service.url) as hook:
        load = Load(service, hook)
        await load.closed(2, seconds / 5)
        with bar(progress, "load", len(callers) + len(OPEN_SHARES) + 2) as advance:
            closed = {}
            for number in callers:
                closed[number] = await load.closed(number, seconds)
                advance()
            opened = {}
            for share in OPEN_SHARES:
                opened[share] = await load.open(share * closed[8].rate, seconds)
                advance()
            alone = await load.quiet(seconds)
            advance()
            beside, flood = await load.quiet_beside_flood(seconds)
            advance()
    return _result(memories, closed, opened, alone, beside, flood)


class Load:
    """Ways to load a service; every call is of one of the tenants, at random."""

    def __init__(self, service: Service, hook: PreExecutionHook, owners: Sequence[str] = (TENANT,)) -> None:
        self._service = service
        self._hook = hook
        self._owners = owners
        self._random = random.Random(5)
        self._texts = messages()

    async def closed(self, callers: int, seconds: float) -> Tally:
        """Let callers call one after another without pauses."""
        async with self._tally() as tally:
            end = time.perf_counter() + seconds
            await asyncio.gather(*(self._call_until(end, tally, f"agent {number}") for number in range(callers)))
        return tally

    async def open(self, rate: float, seconds: float) -> Tally:
        """Send requests at random times; latency counts from the intended time."""
        times, pauses = [0.0], random.Random(7)
        while times[-1] < seconds:
            times.append(times[-1] + pauses.expovariate(rate))
        async with self._tally() as tally:
            start = time.perf_counter()

            async def send(number: int, at: float) -> None:
                await asyncio.sleep(max(0.0, start + at - time.perf_counter()))
                await self._call(tally, f"agent {number % 20}", start + at)

            await asyncio.gather(*(send(number, at) for number, at in enumerate(times)))
        return tally

    async def quiet(self, seconds: float) -> Tally:
        async with self._tally() as tally:
            await self._call_until(time.perf_counter() + seconds, tally, "quiet", QUIET_PAUSE_S)
        return tally

    async def quiet_beside_flood(self, seconds: float) -> tuple[Tally, Tally]:
        """Measure a quiet caller while another agent of the same tenant floods the service."""
        flood, end = Tally(), time.perf_counter() + seconds
        flooding = [asyncio.create_task(self._call_until(end, flood, "flood")) for _ in range(FLOOD)]
        async with self._tally() as tally:
            await self._call_until(end, tally, "quiet", QUIET_PAUSE_S)
        await asyncio.gather(*flooding)
        flood.seconds = seconds
        return tally, flood

    async def _call_until(self, end: float, tally: Tally, agent: str, pause: float = 0.0) -> None:
        while (start := time.perf_counter()) < end:
            await self._call(tally, agent, start)
            await asyncio.sleep(pause)

    async def _call(self, tally: Tally, agent: str, start: float) -> None:
        scope = {"tenant": self._random.choice(self._owners)}
        fields = {"agent_id": agent, "scope": scope, "deadline_ms": DEADLINE_MS}
        result = await self._hook({"session_id": f"load {next(_numbers)}", "message": next(self._texts), **fields})
        tally.add(result, (time.perf_counter() - start) * 1000)

    @asynccontextmanager
    async def _tally(self) -> AsyncIterator[Tally]:
        tally, start, used = Tally(), time.perf_counter(), self._service.processor_ms()
        yield tally
        tally.seconds = time.perf_counter() - start
        after = self._service.processor_ms()
        tally.processor_ms = after - used if after is not None and used is not None else 0.0


def _result(
    memories: int, closed: dict[int, Tally], opened: dict[float, Tally], alone: Tally, beside: Tally, flood: Tally
) -> Result:
    rows = [tally.row(_callers(number)) for number, tally in closed.items()]
    rows += [tally.row(f"{share:.0%} of the rate of 8 callers, open loop") for share, tally in opened.items()]
    rows += [alone.row("quiet caller alone"), beside.row(f"quiet caller beside {FLOOD} of one agent")]
    rows += [flood.row("the flood")]
    return Result(
        name=NAME,
        title="Many callers",
        method=(
            f"One service without a model, {memories:,} memories, through the hook and the queue, every message new "
            f"and in a new session, {DEADLINE_MS} ms each. Callers of the closed loop call again at once; in the open "
            "loop requests are sent at random times, and their time counts from when they were due. A quiet caller "
            f"pauses for {QUIET_PAUSE_S * 1000:.0f} ms between calls."
        ),
        checks=_checks(closed, alone, beside),
        series=tuple(Series.of(_callers(number), tally.spent) for number, tally in closed.items() if tally.spent),
        notes=(SHARED,),
        tables=(Table(title="Calls", heads=HEADS, rows=tuple(rows)),),
        curves=_curves(closed),
    )


def _callers(number: int) -> str:
    return "1 caller" if number == 1 else f"{number} callers"


def _checks(closed: dict[int, Tally], alone: Tally, beside: Tally) -> tuple[Check, ...]:
    most = max(closed)
    crowd = 40 if 40 in closed else most
    return (
        Check(name=f"{crowd} callers, lost", measured=closed[crowd].lost, limit=0, unit="calls"),
        Check(
            name=f"{most} callers, share of the rate of 8 callers",
            measured=round(closed[most].rate / closed[8].rate, 2),
            limit=0.9,
            unit="",
            at_least=True,
        ),
        Check(
            name="quiet caller beside a flood, p95 as a multiple of that alone",
            measured=round(beside.at(0.95) / alone.at(0.95), 2),
            limit=MOST_QUIET_RATIO,
            unit="times",
        ),
    )


def _curves(closed: dict[int, Tally]) -> tuple[CurveChart, ...]:
    """Return the rate and the latency by the number of callers, where any call was answered."""
    answered = {number: tally for number, tally in closed.items() if tally.spent}
    rates = tuple((float(number), round(tally.rate, 3)) for number, tally in answered.items())
    latencies = {
        name: tuple((float(number), round(tally.at(share), 3)) for number, tally in answered.items())
        for name, share in (("p50", 0.5), ("p95", 0.95))
    }
    axis = "callers, logarithmic"
    return (
        CurveChart(
            name="rate", title="Answers", curves={"service": {"answers/s": rates}}, x_name=axis, y_name="answers/s"
        ),
        CurveChart(name="latency", title="Answers in time", curves={"service": latencies}, x_name=axis, y_name="ms"),
    )
