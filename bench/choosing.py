"""Injection without a model on labelled worlds: without thresholds, with thresholds, and with sessions."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import structlog
from rich.progress import Progress

from hooks.contract import InjectionRequest
from worker.adapters.local.ledger import MemoryLedger
from worker.adapters.local.receipts import FileReceipts
from worker.domain.deadline import Deadline
from worker.injection.search_only import SearchOnlySelector
from worker.injection.service import Injection, InjectionParts, InjectionService
from worker.injection.strategies import Strategies
from worker.recall.recall import Recall
from worker.settings.injection import InjectionConfig
from worker.tuning.evals.measures import Measure, MeasureTable
from worker.tuning.evals.results import TaskRun
from worker.tuning.evals.runner import labelled
from worker.tuning.labelled_worlds import LabelledWorld

from .measure import Check, Result, Series
from .measure import Table as Shown
from .options import Options
from .processes import scratch
from .progress import bar
from .worlds import Opened, opened

NAME = "choosing"
DEADLINE_S = 30.0

NO_THRESHOLDS = {"contextual_min_score": -1.0, "recall_min_score": -1.0, "keyword_min_score": 0.0}
NO_CHOICE = {"confident_score": 0.0, "relative_cut": 0.0}
NO_DEDUP = {"semantic_threshold": 1.0}


@dataclass(frozen=True, slots=True)
class Variant:
    """One configuration, and whether the tasks of a person in a channel share a session."""

    name: str
    settings: dict[str, float]
    sessions: bool = False


VARIANTS = (
    Variant("no thresholds", {**NO_THRESHOLDS, **NO_CHOICE, **NO_DEDUP}),
    Variant("thresholds", NO_DEDUP),
    Variant("thresholds, dedup and ledger", {}, sessions=True),
)

SHOWN = (Measure.PRECISION, Measure.RECALL, Measure.CLEAN, Measure.FORBIDDEN, Measure.ITEMS)


def run(options: Options, progress: Progress) -> Result:
    """Run every task of every world through the whole service, once per variant."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("warning"))
    return asyncio.run(_run(options, progress))


async def _run(options: Options, progress: Progress) -> Result:
    runs: dict[str, list[TaskRun]] = {variant.name: [] for variant in VARIANTS}
    async with opened(options.worlds, progress, quick=options.quick) as world_store:
        total = len(VARIANTS) * sum(len(world.tasks) for world in world_store.worlds)
        with bar(progress, "choosing", total) as advance:
            for variant in VARIANTS:
                for world in world_store.worlds:
                    async with _service(world_store, world, variant) as (service, ledger):
                        runs[variant.name] += await _ask_all(service, ledger, world, variant)
                    for _ in world.tasks:
                        advance()
    return _result(options, len(world_store.worlds), runs)


@asynccontextmanager
async def _service(
    world_store: Opened, world: LabelledWorld, variant: Variant
) -> AsyncIterator[tuple[InjectionService, MemoryLedger]]:
    config = InjectionConfig.model_validate({**variant.settings, "shared_users": world.shared_users})
    profile, ledger = world_store.embedder.profile, MemoryLedger()
    with scratch() as folder:
        service = InjectionService(
            InjectionParts(
                recall=Recall(world_store.engine, world_store.sparse, world_store.embedder),
                strategies=Strategies(SearchOnlySelector(profile)),
                ledger=ledger,
                receipts=FileReceipts(Path(folder)),
                config_for=lambda _: config,
                clock=lambda: datetime.now(UTC),
                profile=profile,
            )
        )
        yield service, ledger
        await service.drain()


async def _ask_all(
    service: InjectionService, ledger: MemoryLedger, world: LabelledWorld, variant: Variant
) -> list[TaskRun]:
    """Run the tasks in order of time; every block counts as shown."""
    seen: dict[str, set[str]] = {}
    runs = []
    for task in world.tasks:
        request = task.request if variant.sessions else _alone(task.request)
        injection = await service.inject(request, Deadline.after(DEADLINE_S))
        await _commit(ledger, injection)
        result, known = injection.result, seen.setdefault(request.session_id, set())
        ids = tuple(item.id for item in result.items)
        shown = tuple(known) if variant.sessions else ()
        runs.append(
            labelled(world, task, 0, injected=ids, known=shown, outcome=result.outcome, elapsed_ms=result.elapsed_ms)
        )
        known.update(ids)
    return runs


def _alone(request: InjectionRequest) -> InjectionRequest:
    return request.model_copy(update={"session_id": f"{request.session_id}-{request.turn_id}"})


async def _commit(ledger: MemoryLedger, injection: Injection) -> None:
    if injection.delivery is not None:
        await ledger.commit(injection.delivery.key, injection.delivery.turn_key)


def _row(name: str, runs: Sequence[TaskRun]) -> tuple[str, ...]:
    table = MeasureTable.of(runs)
    values = [(measure, table.value(measure) or 0.0) for measure in SHOWN]
    return (name, *(f"{value:.2f}" if measure is Measure.ITEMS else f"{value:.3f}" for measure, value in values))


def _clean(runs: Sequence[TaskRun]) -> float:
    return round(100 * (MeasureTable.of(runs).value(Measure.CLEAN) or 0.0), 1)


def _result(options: Options, worlds: int, runs: dict[str, list[TaskRun]]) -> Result:
    heads = ("", "precision", "recall of essential", "clean turns", "forbidden", "items per task")
    rows = tuple(_row(name, found) for name, found in runs.items())
    filtered, plain = runs[VARIANTS[-1].name], runs[VARIANTS[0].name]
    return Result(
        name=NAME,
        title="Injection without a model",
        method=(
            f"Labelled worlds ({worlds}), every task at its own time, through the whole service, without a model. No "
            "thresholds: the best candidates up to `max_items`. Thresholds: default settings, one session per task, "
            "repeats allowed. With dedup and ledger: the tasks of one person in one channel share a session, in order "
            "of time, and each block counts as shown; essential memories shown before count as found. Precision: share "
            "of injected memories that are essential or useful. Clean turns: tasks without relevant memories for which "
            "nothing was injected. Forbidden: tasks with an injected memory that must not be injected."
        ),
        checks=(
            Check(
                name="clean turns with thresholds, against none",
                measured=_clean(filtered),
                limit=_clean(plain),
                unit="%",
                at_least=True,
            ),
        ),
        series=tuple(Series.of(name, [run.elapsed_ms for run in found]) for name, found in runs.items()),
        tables=(Shown(title=f"Selection without a model ({options.worlds.name})", heads=heads, rows=rows),),
    )
