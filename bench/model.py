"""Latency that the service adds to a model's own, and requests whose model hangs."""

import asyncio
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from typing import Any

from rich.progress import Progress

from hooks import Engine, InjectionResult, PreExecutionHook, Reason
from hooks.queue import QueueClient
from worker.operations.client import QueueOperationClient
from worker.operations.health import models_loaded

from .corpus import TENANT, related_messages
from .measure import Check, RangeChart, Result, Series, StackChart, interleaved, latency_checks
from .options import Options
from .processes import BenchError, ModelServer, running_model_server, running_service, scratch
from .progress import bar
from .stores import make_store

NAME = "model"
ANSWER = '{"relevant":[1],"sufficient":true}'
DELAYS_MS = (0, 300, 1000)
ROUNDS, QUICK_ROUNDS = 60, 2
HUNG, QUICK_HUNG = 10, 1
MEMORIES, QUICK_MEMORIES = 1_000, 100
DEADLINE_MS = 3000
MAX_ADDED_MS = 40.0
MAX_WITH_1_S_MS = 1100.0
MAX_HUNG_MS = DEADLINE_MS + 10.0
MAX_TRIES = 10
LOADED_WITHIN_S = 60.0


@dataclass(slots=True)
class Found:
    """Latencies in milliseconds by the model's delay, in total and per part, and those of hung models."""

    total: dict[int, list[float]] = field(default_factory=lambda: {delay: [] for delay in DELAYS_MS})
    parts: dict[int, dict[str, list[float]]] = field(default_factory=lambda: {delay: {} for delay in DELAYS_MS})
    hung: list[float] = field(default_factory=list)
    hung_outcomes: set[str] = field(default_factory=set)
    skipped: "Counter[str]" = field(default_factory=Counter)


def run(options: Options, progress: Progress) -> Result:
    """Measure a service with a scripted model server, each in its own process."""
    with ExitStack() as stack:
        server = stack.enter_context(running_model_server(ANSWER))
        data_dir = stack.enter_context(scratch())
        make_store(data_dir, QUICK_MEMORIES if options.quick else MEMORIES, options.out / "cache", progress)
        chosen = ("--model", "openai/scripted", "--model-api-base", f"{server.url}/v1")
        service = stack.enter_context(running_service(data_dir, *chosen))
        return _result(asyncio.run(_measure(service.url, server, options, progress)))


async def _measure(url: str, server: ModelServer, options: Options, progress: Progress) -> Found:
    asker = Asker(server, Found())
    rounds, hung = (QUICK_ROUNDS, QUICK_HUNG) if options.quick else (ROUNDS, HUNG)
    queue = QueueClient(url)
    await models_loaded(QueueOperationClient(queue, url), LOADED_WITHIN_S)
    await queue.aclose()
    async with PreExecutionHook(url) as hook:
        for _ in range(3):
            await asker.asked(hook, 0)
        with bar(progress, "model: delays", rounds * len(DELAYS_MS)) as advance:
            for delay in interleaved(DELAYS_MS, rounds):
                asker.note(delay, *await asker.asked(hook, delay))
                advance()
        with bar(progress, "model: hung", hung) as advance:
            for _ in range(hung):
                await asker.hung(hook)
                # an answer in between keeps the circuit breaker closed
                await asker.asked(hook, 0)
                advance()
    return asker.found


class Asker:
    """Sends messages, one session each, while controlling the model."""

    def __init__(self, server: ModelServer, found: Found) -> None:
        self._server = server
        self._texts = related_messages()
        self.found = found

    async def asked(self, hook: PreExecutionHook, delay_ms: int) -> tuple[InjectionResult, float]:
        """Return a result by the model. Skip messages without candidates, which never reach it."""
        await self._control(mode="ok", delay=delay_ms / 1000)
        for message in islice(self._texts, MAX_TRIES):
            result, spent = await _send(hook, message)
            if result.engine is Engine.LLM:
                return result, spent
            self.found.skipped[str(result.reason)] += 1
        raise BenchError(f"{MAX_TRIES} messages in a row did not reach the model: {self.found.skipped}")

    async def hung(self, hook: PreExecutionHook) -> None:
        await self._control(mode="hang", delay=0)
        for message in islice(self._texts, MAX_TRIES):
            result, spent = await _send(hook, message)
            if result.reason is Reason.MODEL_TIMEOUT:
                self.found.hung.append(spent)
                self.found.hung_outcomes.add(f"{result.outcome} by the {result.engine} engine, {result.reason}")
                return
            if result.engine is Engine.LLM:
                raise BenchError(f"a hung model led to {result.outcome} by {result.engine}, {result.reason}")
            self.found.skipped[str(result.reason)] += 1
        raise BenchError(f"{MAX_TRIES} messages in a row did not reach the model: {self.found.skipped}")

    def note(self, delay: int, result: InjectionResult, spent: float) -> None:
        triage = result.stages["triage"]
        parts = {name: part for name, part in result.stages.items() if name != "triage"}
        rest = spent - sum(result.stages.values())
        self.found.total[delay].append(spent)
        for name, part in {**parts, "call of the model": triage - delay, "rest, queue and hook": rest}.items():
            self.found.parts[delay].setdefault(name, []).append(part)

    async def _control(self, **settings: Any) -> None:
        await asyncio.to_thread(lambda: self._server.control(**settings))


async def _send(hook: PreExecutionHook, message: str) -> tuple[InjectionResult, float]:
    request = {
        "session_id": message,
        "message": message,
        "scope": {"tenant": TENANT},
        "deadline_ms": DEADLINE_MS,
    }
    begun = time.perf_counter()
    result = await hook(request)
    return result, (time.perf_counter() - begun) * 1000


METHOD = (
    "From the call of the hook to the block, with a scripted model server in another process that speaks "
    "OpenAI's protocol and waits for 0, 300 or 1,000 ms, in shuffled order; the service calls it through "
    "litellm. The added time is everything but that wait: hook, queue, embedder, search in 1,000 memories, "
    "prompt, HTTP, the server's own work, parsing, rendering and ledger. A hung model accepts the "
    f"request and never answers; the caller's deadline is {DEADLINE_MS:,} ms."
)


def _result(found: Found) -> Result:
    added = {
        delay: Series.of(f"added to a model of {delay:,} ms", [spent - delay for spent in values])
        for delay, values in found.total.items()
    }
    whole = Series.of("full answer, model of 1,000 ms", found.total[1000])
    hung = Series.of("full answer, model that hangs", found.hung)
    parts = [
        Series.of(f"model of {delay:,} ms: {name}", values)
        for delay, named in found.parts.items()
        for name, values in named.items()
    ]
    return Result(
        name=NAME,
        title="With a model",
        method=METHOD,
        checks=(
            *(
                check
                for delay, series in added.items()
                for check in latency_checks(f"added to a model of {delay:,} ms", series, p50=MAX_ADDED_MS)
            ),
            Check(name="full answer, model of 1,000 ms, p50", measured=whole.p50, limit=MAX_WITH_1_S_MS),
            Check(name="full answer, model that hangs, worst", measured=hung.most, limit=MAX_HUNG_MS),
        ),
        series=(*added.values(), whole, hung, *parts),
        notes=(
            f"With a hung model, callers got: {'; '.join(sorted(found.hung_outcomes))}.",
            f"{found.skipped.total()} messages did not reach the model and were skipped{_reasons(found)}.",
        ),
        ranges=(
            RangeChart(
                name="added",
                title="Latency added to the model's own",
                series=tuple(series.name for series in added.values()),
                limits={"p50 target": MAX_ADDED_MS},
            ),
        ),
        stacks=(
            StackChart(
                name="stages",
                title="Added time per stage, medians",
                bars={
                    f"model of {delay:,} ms": {name: median(values) for name, values in named.items()}
                    for delay, named in found.parts.items()
                },
            ),
        ),
    )


def _reasons(found: Found) -> str:
    reasons = ", ".join(f"{reason} {count}" for reason, count in found.skipped.items())
    return f" ({reasons})" if reasons else ""
