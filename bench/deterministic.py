"""The whole answer without a model: hook, queue, embedder, store, choice, ledger, and back."""

import asyncio
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.progress import Progress

from hooks import InjectionResult, Outcome, PreExecutionHook
from hooks.queue import QueueClient, Reply

from .corpus import TENANT, messages
from .measure import Check, RangeChart, Result, Series, StackChart, interleaved, latency_checks
from .options import Options
from .processes import BenchError, Service, running_service, scratch
from .progress import bar
from .stores import EMBEDDED, make_store

NAME = "deterministic"
CALLERS = 8
WARM_UP = 5
BLOCK = 20
"""Messages in a row to the same service: one alone would find the processor's caches full of the others' memory."""

SIZE = 10_000
LEAST_RATE = 100.0
EVERYTHING = """[memory_injection]
ambient_enabled = true
pinned_types = ["todo", "goal", "identity"]
"""
TELLING = (Outcome.INJECTED, Outcome.NONE_RELEVANT, Outcome.ALL_DUPLICATE)


class Tap(QueueClient):
    """The hook's own way to the queue; keeps how long the service says that it took."""

    service_ms = 0.0

    async def ask(self, *arguments: Any, **options: Any) -> Reply:
        reply = await super().ask(*arguments, **options)
        self.service_ms = float(reply.body["elapsed_ms"])
        return reply


@dataclass(frozen=True, slots=True)
class Case:
    """A store of so many memories, and how it is used: every message of a session of its own, or with everything on,
    which is pinned types and a session that goes on, so that the ledger has shown memories to look through."""

    memories: int
    everything: bool = False

    @property
    def label(self) -> str:
        return f"{self.memories:,} memories{', everything on' if self.everything else ''}"

    @property
    def settings(self) -> str:
        return EVERYTHING if self.everything else ""

    def session(self, number: int) -> str:
        return f"session {number // BLOCK if self.everything else number}"


LIMITS: Mapping[Case, Mapping[str, float]] = {
    Case(SIZE): {"p50": 25.0, "p95": 60.0},
    Case(SIZE, everything=True): {"p95": 60.0},
    Case(100_000): {"p95": 100.0},
}


METHOD = (
    "From the call of the hook to the block, its commit to the ledger included, against `meeseeks up` with the "
    "embedded store and the embedder in process. Every message is new to the embedder and of a new session; "
    "one in four is about nothing that is remembered. Everything on: pinned types as well, and sessions of "
    f"{BLOCK} messages, each with a ledger. One service per case, all running, asked in shuffled "
    f"order, {BLOCK} messages in a row. Full load: {CALLERS} callers who ask again once they are answered."
)


@dataclass(frozen=True, slots=True)
class Stand:
    """One service that is measured, and what was measured: milliseconds in all, and per part."""

    case: Case
    service: Service
    tap: Tap
    hook: PreExecutionHook
    total: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=dict)
    outcomes: "Counter[str]" = field(default_factory=Counter)
    """How the answers ended, those under load included."""
    processor_ms: list[float] = field(default_factory=list)
    """What the service used per answer; empty where the system does not say."""


@dataclass(frozen=True, slots=True)
class Plan:
    cases: tuple[Case, ...]
    rounds: int
    load_s: float


def _plan(options: Options) -> Plan:
    if options.quick:
        return Plan((Case(200), Case(200, everything=True)), 20, 1.0)
    sizes = (1_000, 10_000, 100_000) if options.full else (1_000, 10_000)
    return Plan((*map(Case, sizes), Case(SIZE, everything=True)), 300, 8.0)


def run(options: Options, progress: Progress) -> Result:
    """One service per case, all running at the same time, asked in turn."""
    plan = _plan(options)
    with ExitStack() as stack:
        services = {}
        for case in plan.cases:
            data_dir = stack.enter_context(scratch())
            make_store(data_dir, case.memories, options.out / "cache", progress)
            services[case] = stack.enter_context(running_service(data_dir, "--model", "none", settings=case.settings))
        return asyncio.run(_measure(services, plan, progress))


async def _measure(services: dict[Case, Service], plan: Plan, progress: Progress) -> Result:
    texts = enumerate(messages())
    async with AsyncExitStack() as stack:
        stands = []
        for case, service in services.items():
            tap = Tap(service.url)
            stands.append(Stand(case, service, tap, await stack.enter_async_context(PreExecutionHook(queue=tap))))
        for world_store in interleaved(stands, WARM_UP):
            await _ask(world_store, *next(texts))
        used = [world_store.service.processor_ms() for world_store in stands]
        with bar(progress, "deterministic: one caller", plan.rounds * len(stands)) as advance:
            for world_store in interleaved(stands, plan.rounds // BLOCK):
                for _ in range(BLOCK):
                    _note(world_store, *await _ask(world_store, *next(texts)))
                    advance()
        for world_store, before in zip(stands, used, strict=True):
            after = world_store.service.processor_ms()
            if before is not None and after is not None:
                world_store.processor_ms.append((after - before) / plan.rounds)
        rates = {}
        with bar(progress, "deterministic: full load", len(stands)) as advance:
            for world_store in stands:
                rates[world_store.case] = await _load(world_store, texts, plan.load_s)
                advance()
    return _result(stands, rates)


async def _ask(world_store: Stand, number: int, message: str) -> tuple[InjectionResult, float]:
    """An answer, and the milliseconds until the caller had it."""
    begun = time.perf_counter()
    request = {"session_id": world_store.case.session(number), "message": message, "scope": {"tenant": TENANT}}
    result = await world_store.hook(request)
    spent = (time.perf_counter() - begun) * 1000
    world_store.outcomes[result.outcome.value if _is_whole(result) else str(result.reason)] += 1
    return result, spent


def _is_whole(result: InjectionResult) -> bool:
    return result.outcome in TELLING and not result.degraded


def _note(world_store: Stand, result: InjectionResult, spent: float) -> None:
    if not _is_whole(result):
        return
    service = world_store.tap.service_ms
    parts = {
        **result.stages,
        "rest of the service": service - sum(result.stages.values()),
        "queue and hook": spent - service,
    }
    world_store.total.append(spent)
    for name, part in parts.items():
        world_store.parts.setdefault(name, []).append(part)


async def _load(world_store: Stand, texts: Iterator[tuple[int, str]], seconds: float) -> tuple[float, list[float]]:
    """Answers per second, and the milliseconds of each, for callers who ask again as soon as they have an answer."""
    begun, spent = time.perf_counter(), list[float]()

    async def caller() -> None:
        while time.perf_counter() - begun < seconds:
            result, took = await _ask(world_store, *next(texts))
            if _is_whole(result):
                spent.append(took)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return len(spent) / (time.perf_counter() - begun), spent


def _series(name: str, values: list[float], world_store: Stand) -> Series:
    if not values:
        raise BenchError(f"{name}: no whole answer, but {dict(world_store.outcomes)}")
    return Series.of(name, values)


def _result(stands: list[Stand], rates: dict[Case, tuple[float, list[float]]]) -> Result:
    alone = {
        world_store.case: _series(world_store.case.label, world_store.total, world_store) for world_store in stands
    }
    crowd = [
        _series(f"{world_store.case.label}, {CALLERS} callers", rates[world_store.case][1], world_store)
        for world_store in stands
    ]
    rate = [
        Series.of(f"{world_store.case.label}, full load", [rates[world_store.case][0]], "answers/s")
        for world_store in stands
    ]
    parts = [
        Series.of(f"{world_store.case.label}: {name}", values)
        for world_store in stands
        for name, values in world_store.parts.items()
    ]
    parts += [
        Series.of(f"{world_store.case.label}: processor time of the service per answer", world_store.processor_ms)
        for world_store in stands
        if world_store.processor_ms
    ]
    checks = [
        check
        for case, limits in LIMITS.items()
        if case in alone
        for check in latency_checks(f"answer without a model, {case.label}", alone[case], **limits)
    ]
    if Case(SIZE) in rates:
        name = f"answers without a model, {Case(SIZE).label}, {CALLERS} callers"
        rate_now = round(rates[Case(SIZE)][0], 1)
        checks.append(Check(name=name, measured=rate_now, limit=LEAST_RATE, unit="/s", at_least=True))
    return Result(
        name=NAME,
        title="The whole answer without a model",
        method=METHOD,
        checks=tuple(checks),
        series=(*alone.values(), *crowd, *rate, *parts),
        notes=_notes(stands),
        ranges=(
            RangeChart(
                name="latency",
                title="The whole answer without a model",
                series=(*(series.name for series in alone.values()), *(series.name for series in crowd)),
                limits={"p50 target, 10,000": 25.0, "p95 target, 10,000": 60.0},
            ),
        ),
        stacks=(
            StackChart(
                name="stages",
                title="Where the time goes, medians of one caller",
                bars={
                    world_store.case.label: {name: median(values) for name, values in world_store.parts.items()}
                    for world_store in stands
                },
            ),
        ),
    )


def _counts(outcomes: "Counter[str]") -> str:
    return ", ".join(f"{count} {name}" for name, count in outcomes.most_common())


def _notes(stands: list[Stand]) -> tuple[str, ...]:
    notes = [
        f"Answers of {world_store.case.label}: {_counts(world_store.outcomes)}. "
        "Only whole answers (injected, none_relevant, all_duplicate) are counted above."
        for world_store in stands
    ]
    if any(world_store.case.memories > EMBEDDED for world_store in stands):
        notes.append(
            f"Beyond the first {EMBEDDED:,} memories, vectors are those of the first ones with noise added, and not "
            "the embedder's; texts and keyword vectors are real throughout."
        )
    return tuple(notes)
