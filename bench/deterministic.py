"""Full injection without a model: hook, queue, embedder, store, selection and ledger."""

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
BATCH = 20
"""Messages in a row to the same service; fewer would start with the CPU caches of another service."""

SIZE = 10_000
MIN_RATE = 100.0
EVERYTHING = """[memory_injection]
ambient_enabled = true
pinned_types = ["todo", "goal", "identity"]
"""
ANSWERED = (Outcome.INJECTED, Outcome.NONE_RELEVANT, Outcome.ALL_DUPLICATE)


class Tap(QueueClient):
    """Queue client that records the time reported by the service."""

    service_ms = 0.0

    async def ask(self, *arguments: Any, **options: Any) -> Reply:
        reply = await super().ask(*arguments, **options)
        self.service_ms = float(reply.body["elapsed_ms"])
        return reply


@dataclass(frozen=True, slots=True)
class Case:
    """A store of `memories`, with one session per message, or with `everything` on.

    That means pinned types and longer sessions, so that the ledger contains shown memories.
    """

    memories: int
    everything: bool = False

    @property
    def label(self) -> str:
        return f"{self.memories:,} memories{', everything on' if self.everything else ''}"

    @property
    def settings(self) -> str:
        return EVERYTHING if self.everything else ""

    def session(self, number: int) -> str:
        return f"session {number // BATCH if self.everything else number}"


LIMITS: Mapping[Case, Mapping[str, float]] = {
    Case(SIZE): {"p50": 25.0, "p95": 60.0},
    Case(SIZE, everything=True): {"p95": 60.0},
    Case(100_000): {"p95": 100.0},
}

METHOD = (
    "From the call of the hook to the block, including the commit to the ledger, against `meeseeks up` with the "
    "embedded store and the embedder in process. Every message is new to the embedder and in a new session; "
    "one in four is unrelated to all memories. Everything on: with pinned types and sessions of "
    f"{BATCH} messages. One service per case, all running at once, called in shuffled "
    f"order, {BATCH} messages in a row. Full load: {CALLERS} callers without pauses."
)


@dataclass(frozen=True, slots=True)
class Probe:
    """A measured service and its measurements in milliseconds, in total and per part."""

    case: Case
    service: Service
    tap: Tap
    hook: PreExecutionHook
    total: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=dict)
    outcomes: "Counter[str]" = field(default_factory=Counter)
    """Counts of outcomes, including those under load."""
    processor_ms: list[float] = field(default_factory=list)
    """Processor time of the service per answer; empty if the system does not report it."""


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
    """Start one service per case, all at once, and measure them in turn."""
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
        probes = []
        for case, service in services.items():
            tap = Tap(service.url)
            probes.append(Probe(case, service, tap, await stack.enter_async_context(PreExecutionHook(queue=tap))))
        for probe in interleaved(probes, WARM_UP):
            await _ask(probe, *next(texts))
        used = [probe.service.processor_ms() for probe in probes]
        with bar(progress, "deterministic: one caller", plan.rounds * len(probes)) as advance:
            for probe in interleaved(probes, plan.rounds // BATCH):
                for _ in range(BATCH):
                    _note(probe, *await _ask(probe, *next(texts)))
                    advance()
        for probe, before in zip(probes, used, strict=True):
            after = probe.service.processor_ms()
            if before is not None and after is not None:
                probe.processor_ms.append((after - before) / plan.rounds)
        rates = {}
        with bar(progress, "deterministic: full load", len(probes)) as advance:
            for probe in probes:
                rates[probe.case] = await _load(probe, texts, plan.load_s)
                advance()
    return _result(probes, rates)


async def _ask(probe: Probe, number: int, message: str) -> tuple[InjectionResult, float]:
    """Return a result and its latency in milliseconds."""
    start = time.perf_counter()
    request = {"session_id": probe.case.session(number), "message": message, "scope": {"tenant": TENANT}}
    result = await probe.hook(request)
    elapsed = (time.perf_counter() - start) * 1000
    probe.outcomes[result.outcome.value if _is_complete(result) else str(result.reason)] += 1
    return result, elapsed


def _is_complete(result: InjectionResult) -> bool:
    return result.outcome in ANSWERED and not result.degraded


def _note(probe: Probe, result: InjectionResult, elapsed: float) -> None:
    if not _is_complete(result):
        return
    service = probe.tap.service_ms
    parts = {
        **result.stages,
        "rest of the service": service - sum(result.stages.values()),
        "queue and hook": elapsed - service,
    }
    probe.total.append(elapsed)
    for name, part in parts.items():
        probe.parts.setdefault(name, []).append(part)


async def _load(probe: Probe, texts: Iterator[tuple[int, str]], seconds: float) -> tuple[float, list[float]]:
    """Return answers per second and their latencies, for callers without pauses."""
    start, elapsed = time.perf_counter(), list[float]()

    async def caller() -> None:
        while time.perf_counter() - start < seconds:
            result, latency = await _ask(probe, *next(texts))
            if _is_complete(result):
                elapsed.append(latency)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return len(elapsed) / (time.perf_counter() - start), elapsed


def _series(name: str, values: list[float], probe: Probe) -> Series:
    if not values:
        raise BenchError(f"{name}: no complete answers, only {dict(probe.outcomes)}")
    return Series.of(name, values)


def _result(probes: list[Probe], rates: dict[Case, tuple[float, list[float]]]) -> Result:
    alone = {probe.case: _series(probe.case.label, probe.total, probe) for probe in probes}
    crowd = [_series(f"{probe.case.label}, {CALLERS} callers", rates[probe.case][1], probe) for probe in probes]
    rate = [Series.of(f"{probe.case.label}, full load", [rates[probe.case][0]], "answers/s") for probe in probes]
    parts = [
        Series.of(f"{probe.case.label}: {name}", values) for probe in probes for name, values in probe.parts.items()
    ]
    parts += [
        Series.of(f"{probe.case.label}: processor time of the service per answer", probe.processor_ms)
        for probe in probes
        if probe.processor_ms
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
        checks.append(Check(name=name, measured=rate_now, limit=MIN_RATE, unit="/s", at_least=True))
    return Result(
        name=NAME,
        title="Full answer without a model",
        method=METHOD,
        checks=tuple(checks),
        series=(*alone.values(), *crowd, *rate, *parts),
        notes=_notes(probes),
        ranges=(
            RangeChart(
                name="latency",
                title="Full answer without a model",
                series=(*(series.name for series in alone.values()), *(series.name for series in crowd)),
                limits={"p50 target, 10,000": 25.0, "p95 target, 10,000": 60.0},
            ),
        ),
        stacks=(
            StackChart(
                name="stages",
                title="Time per stage, medians of one caller",
                bars={
                    probe.case.label: {name: median(values) for name, values in probe.parts.items()} for probe in probes
                },
            ),
        ),
    )


def _counts(outcomes: "Counter[str]") -> str:
    return ", ".join(f"{count} {name}" for name, count in outcomes.most_common())


def _notes(probes: list[Probe]) -> tuple[str, ...]:
    notes = [
        f"Answers of {probe.case.label}: {_counts(probe.outcomes)}. "
        "The numbers above include complete answers only (injected, none_relevant, all_duplicate)."
        for probe in probes
    ]
    if any(probe.case.memories > EMBEDDED for probe in probes):
        notes.append(
            f"Beyond the first {EMBEDDED:,} memories, vectors are copies of the first ones with noise added instead of "
            "real embeddings; texts and keyword vectors are always real."
        )
    return tuple(notes)
