"""Latency of the queue: the hook with a job that does nothing, compared with plain arq."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings
from rich.progress import Progress

from hooks import PreExecutionHook, Reason

from .measure import RangeChart, Result, Series, interleaved, latency_checks, ratio
from .options import Options
from .processes import BenchError, running_queue_worker, running_valkey
from .progress import bar
from .queue_worker import JOB, MAX_JOBS, MEESEEKS, POLL_S

NAME = "queue"
DEFAULT, TUNED = POLL_S
CALLERS = 20
JOB_MS = 300
WARM_UP = 3
PAUSE_S = 0.01
"""Maximum random pause before a call, so that calls do not synchronize with polling."""

Call = Callable[[int], Awaitable[bool]]
"""Runs a job that sleeps for the given milliseconds. Returns whether it was answered."""

LIMITS = {"p50": 4.0, "p95": 10.0, "p99": 25.0}


@dataclass(frozen=True, slots=True)
class Plan:
    """Calls per variant and round, rounds, rounds with many callers, their jobs each, and seconds of full load."""

    calls: Mapping[str, int]
    rounds: int
    crowd_rounds: int
    jobs: int
    load_s: float


FULL = Plan({MEESEEKS: 6, TUNED: 6, DEFAULT: 1}, 100, 5, 4, 6.0)
QUICK = Plan({MEESEEKS: 6, TUNED: 3, DEFAULT: 1}, 6, 1, 1, 0.2)


def run(options: Options, progress: Progress) -> Result:
    """Measure one Valkey and three workers, each in its own process."""
    plan = QUICK if options.quick else FULL
    with ExitStack() as stack:
        url = stack.enter_context(running_valkey())
        for kind in (MEESEEKS, *POLL_S):
            stack.enter_context(running_queue_worker(kind, url))
        return asyncio.run(_measure(url, plan, progress))


async def _measure(url: str, plan: Plan, progress: Progress) -> Result:
    async with _callers(url) as calls:
        alone = await _alone(calls, plan, progress)
        crowd = await _crowd(calls, plan, progress)
        rates = {}
        with bar(progress, "queue: full load", len(calls)) as advance:
            for kind, call in calls.items():
                rates[kind] = await _rate(call, plan.load_s)
                advance()
    return _result(alone, crowd, rates)


@asynccontextmanager
async def _callers(url: str) -> AsyncIterator[dict[str, Call]]:
    async with AsyncExitStack() as stack:
        hook = await stack.enter_async_context(PreExecutionHook(url))
        calls: dict[str, Call] = {MEESEEKS: _hook_call(hook)}
        for kind, poll_s in POLL_S.items():
            pool = await create_pool(RedisSettings.from_dsn(url), default_queue_name=kind)
            stack.push_async_callback(pool.aclose)
            calls[kind] = _arq_call(pool, poll_s)
        yield calls


def _hook_call(hook: PreExecutionHook) -> Call:
    async def call(milliseconds: int) -> bool:
        result = await hook({"session_id": "bench", "message": str(milliseconds)})
        return result.reason is Reason.NOTHING_RECALLED

    return call


def _arq_call(pool: ArqRedis, poll_s: float) -> Call:
    async def call(milliseconds: int) -> bool:
        job = await pool.enqueue_job(JOB, milliseconds)
        if job is None:
            raise BenchError("arq refused a job")
        await job.result(timeout=30, poll_delay=poll_s)
        return True

    return call


@dataclass(slots=True)
class Tally:
    """Latencies of answered calls in milliseconds, and the number of unanswered calls."""

    spent: list[float] = field(default_factory=list)
    unanswered: int = 0

    async def add(self, call: Call, milliseconds: int) -> None:
        start = time.perf_counter()
        answered = await call(milliseconds)
        if answered:
            self.spent.append((time.perf_counter() - start) * 1000 - milliseconds)
        else:
            self.unanswered += 1


Tallies = dict[str, Tally]


async def _alone(calls: Mapping[str, Call], plan: Plan, progress: Progress) -> Tallies:
    """Measure sequential calls with a job that does nothing."""
    tallies = {kind: Tally() for kind in calls}
    for kind in interleaved(tuple(calls), WARM_UP):
        await calls[kind](0)
    turns = [kind for kind in calls for _ in range(plan.calls[kind])]
    pause = random.Random(3)
    with bar(progress, "queue: one caller", plan.rounds * len(turns)) as advance:
        for kind in interleaved(turns, plan.rounds):
            await asyncio.sleep(pause.uniform(0, PAUSE_S))
            await tallies[kind].add(calls[kind], 0)
            advance()
    return tallies


async def _crowd(calls: Mapping[str, Call], plan: Plan, progress: Progress) -> Tallies:
    """Measure concurrent calls, minus the time of the job."""
    tallies = {kind: Tally() for kind in calls}
    with bar(progress, f"queue: {CALLERS} callers", plan.crowd_rounds * len(calls)) as advance:
        for kind in interleaved(tuple(calls), plan.crowd_rounds):
            await _round(calls[kind], tallies[kind], plan.jobs)
            advance()
    return tallies


async def _round(call: Call, tally: Tally, jobs: int) -> None:
    """Run some jobs per caller; callers start evenly spread over the time of one job."""

    async def caller(position: int) -> None:
        await asyncio.sleep(JOB_MS / 1000 * position / CALLERS)
        for _ in range(jobs):
            await tally.add(call, JOB_MS)

    await asyncio.gather(*(call(0) for _ in range(CALLERS)))  # open all connections first
    await asyncio.gather(*(caller(position) for position in range(CALLERS)))


async def _rate(call: Call, seconds: float) -> float:
    """Return jobs per second for callers without pauses."""
    start = time.perf_counter()

    async def caller() -> int:
        done = 0
        while time.perf_counter() - start < seconds:
            done += await call(0)
        return done

    done = sum(await asyncio.gather(*(caller() for _ in range(CALLERS))))
    return done / (time.perf_counter() - start)


def _series(name: str, tally: Tally) -> Series:
    if tally.unanswered >= len(tally.spent):
        raise BenchError(f"{name}: {tally.unanswered} calls were not answered, only {len(tally.spent)} were")
    return Series.of(name, tally.spent)


def _result(alone: Tallies, crowd: Tallies, rates: Mapping[str, float]) -> Result:
    single = {kind: _series(f"{kind}: one caller", tally) for kind, tally in alone.items()}
    many = {kind: _series(f"{kind}: {CALLERS} callers, {JOB_MS} ms job", tally) for kind, tally in crowd.items()}
    load = [Series.of(f"{kind}: full load", [rate], "jobs/s") for kind, rate in rates.items()]
    shown = (*single.values(), *many.values())
    return Result(
        name=NAME,
        title="Latency of the queue",
        method=(
            "From the call of the hook to its answer, for a job that does nothing, with a worker in another process "
            "and an embedded Valkey. Compared with arq with default polling (every 500 ms) and tuned polling (every "
            f"10 ms) on the same Valkey at the same time, in shuffled order. {CALLERS} concurrent callers run jobs of "
            f"{JOB_MS} ms; the numbers exclude that time. Full load: {CALLERS} callers without pauses and jobs that do "
            f"nothing. Every worker runs up to {MAX_JOBS} jobs at once."
        ),
        checks=latency_checks("hook, job that does nothing, answer", single[MEESEEKS], **LIMITS),
        series=(*shown, *load),
        notes=(_comparison(single), _unanswered(alone, crowd)),
        ranges=(
            RangeChart(
                name="latency",
                title="Overhead of the queue",
                series=tuple(series.name for series in shown),
                limits={f"{key} target": limit for key, limit in LIMITS.items()},
            ),
        ),
    )


def _comparison(single: Mapping[str, Series]) -> str:
    ours, default, tuned = (single[kind].values for kind in (MEESEEKS, DEFAULT, TUNED))
    return (
        f"Median of one caller: arq with default polling takes {ratio(default, ours):.0f} times as long, "
        f"with tuned polling {ratio(tuned, ours):.1f} times."
    )


def _unanswered(alone: Tallies, crowd: Tallies) -> str:
    return (
        "Calls of the hook without an answer, because no worker accepted the job in time: "
        f"{alone[MEESEEKS].unanswered} of one caller, {crowd[MEESEEKS].unanswered} of {CALLERS} callers."
    )
