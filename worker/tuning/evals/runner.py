"""Runs the tasks of labelled worlds through the real service, each world on a store of its own.

Every task is a session of its own, at its own time: what one is told is nothing to the next. The service is the one
that answers hooks, with everything but the queue; the model is the one that is configured.
"""

import asyncio
import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from hooks.contract import InjectionResult, Outcome, Reason
from hooks.wire import INJECT
from worker.domain.errors import MeeseeksError
from worker.operations.memories import PUT
from worker.operations.requests import RECEIPT
from worker.settings.injection import Settings
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

from .archive import EvaluationArchive
from .hashing import sha256
from .plan import EvaluationPlan
from .results import TEXT_CHARS, Report, TaskRun, spoken_of

BATCH = 100
PUT_BUDGET_S = 120.0
RECEIPT_BUDGET_S = 2.0
RECEIPT_TRIES = 40
RECEIPT_PAUSE_S = 0.02
"""A receipt is written after its answer has left."""

WAKE_TRIES = 40
WAKE_PAUSE_S = 0.5
STILL_WAKING = frozenset({Reason.MODEL_NO_TIME, Reason.MODEL_TIMEOUT, Reason.MODEL_PAUSED})
"""Why a model that is being loaded does not answer."""

LATE_S = 0.5
"""Seconds beyond a request's deadline after which an answer is not waited for."""


class Backend(Protocol):
    """Does operations by name. Raises `MeeseeksError`."""

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]: ...


Opener = Callable[[Settings], AbstractAsyncContextManager[Backend]]
"""Opens the service of one world, its model warmed up."""

Advance = Callable[[int], None]
"""Is told how many runs are done."""


@dataclass(slots=True)
class CostBudget:
    """What has been spent, in US dollars, and the most that may be; calls of unknown cost count as nothing."""

    most: float | None
    spent: float = 0.0

    @property
    def empty(self) -> bool:
        return self.most is not None and self.spent >= self.most

    def pay(self, cost: float | None) -> None:
        self.spent += cost or 0.0


@dataclass(slots=True)
class Evaluation:
    """Runs of a plan so far; `cached` of them were known before."""

    plan: EvaluationPlan
    open_service: Opener
    archive: EvaluationArchive | None
    fresh: bool
    advance: Advance
    cost_budget: CostBudget
    runs: list[TaskRun] = field(default_factory=list)
    cached: int = 0


async def evaluate(
    plan: EvaluationPlan,
    open_service: Opener,
    *,
    archive: EvaluationArchive | None,
    advance: Advance,
    now: datetime,
    fresh: bool = False,
) -> Report:
    """The report of a plan. With a `shelf`, what is run is kept, and what is kept is not run again unless `fresh`.

    Raises `MeeseeksError` for a service that cannot be opened; a request that fails is a run that says so.
    """
    evaluation = Evaluation(plan, open_service, archive, fresh, advance, CostBudget(plan.max_cost))
    for world in plan.worlds:
        evaluation.runs += await _world(evaluation, world)
    return _report(evaluation, now)


async def _world(evaluation: Evaluation, world: LabelledWorld) -> list[TaskRun]:
    plan, archive = evaluation.plan, evaluation.archive
    key = plan.key_of(world)
    known = archive.results(key) if archive and not evaluation.fresh else {}
    wanted = [(task, repeat) for task in world.tasks for repeat in range(plan.repeat)]
    kept = [known[task.key, repeat] for task, repeat in wanted if (task.key, repeat) in known]
    missing = [(task, repeat) for task, repeat in wanted if (task.key, repeat) not in known]
    evaluation.cached += len(kept)
    evaluation.advance(len(kept))
    if not missing or evaluation.cost_budget.empty:
        return kept
    made: list[TaskRun] = []
    try:
        await _run(evaluation, world, missing, made)
    finally:
        sound = [run for run in made if not run.degraded]  # a model that was away is to be asked again
        if archive and sound:
            archive.keep_results(key, sorted((*known.values(), *sound), key=lambda run: (run.task, run.repeat)))
    return kept + made


async def _run(
    evaluation: Evaluation, world: LabelledWorld, missing: Sequence[tuple[LabelledTask, int]], made: list[TaskRun]
) -> None:
    """Run tasks of a world, several at a time; what is done is in `made`, also when this is cut short."""
    slots = asyncio.Semaphore(evaluation.plan.parallel)
    with tempfile.TemporaryDirectory(prefix="meeseeks-eval-") as folder:
        settings = evaluation.plan.settings_for(world, Path(folder))
        async with evaluation.open_service(settings) as backend:
            await _store(backend, world)
            await _wake(evaluation, backend, world)

            async def one(task: LabelledTask, repeat: int) -> None:
                async with slots:
                    if not evaluation.cost_budget.empty:
                        run = await ask(backend, world, task, repeat, evaluation.plan.deadline_ms)
                        evaluation.cost_budget.pay(run.cost)
                        made.append(run)
                        evaluation.advance(1)

            async with asyncio.TaskGroup() as group:
                for task, repeat in missing:
                    group.create_task(one(task, repeat))


async def _store(backend: Backend, world: LabelledWorld) -> None:
    for start in range(0, len(world.memories), BATCH):
        batch = [memory.model_dump(mode="json") for memory in world.memories[start : start + BATCH]]
        await backend.call(PUT, {"tenant": world.name, "memories": batch}, budget=PUT_BUDGET_S)


async def _wake(evaluation: Evaluation, backend: Backend, world: LabelledWorld) -> None:
    """Ask until the model answers, or fails otherwise than by being slow: it is loaded while the first ones wait."""
    first = next((task for task in world.tasks if task.essential), None)
    if not evaluation.plan.models or first is None:
        return
    for _ in range(WAKE_TRIES):
        run = await ask(backend, world, first, -1, evaluation.plan.deadline_ms)
        evaluation.cost_budget.pay(run.cost)
        if run.reason not in STILL_WAKING or evaluation.cost_budget.empty:
            return
        await asyncio.sleep(WAKE_PAUSE_S)


async def ask(backend: Backend, world: LabelledWorld, task: LabelledTask, repeat: int, deadline_ms: int) -> TaskRun:
    """One run of one task, in a session of its own; repeats are told from each other by their number."""
    request = task.request.model_copy(
        update={
            "session_id": f"{world.name}/{task.key}/{repeat}",
            "turn_id": f"{task.key}/{repeat}",
            "deadline_ms": deadline_ms,
        }
    )
    try:
        body = await backend.call(INJECT, request.model_dump(mode="json"), budget=deadline_ms / 1000 + LATE_S)
    except MeeseeksError as error:
        reason = getattr(error, "reason", Reason.INTERNAL)
        outcome = Outcome.TIMEOUT if reason is Reason.DEADLINE else Outcome.ERROR
        return labelled(world, task, repeat, outcome=outcome, reason=reason, degraded=True, elapsed_ms=deadline_ms)
    result = InjectionResult.model_validate(body)
    usage = await _usage(backend, world, result) if "triage" in result.stages else {}
    return labelled(
        world,
        task,
        repeat,
        injected=tuple(item.id for item in result.items),
        outcome=result.outcome,
        reason=result.reason,
        engine=result.engine,
        degraded=result.degraded,
        elapsed_ms=result.elapsed_ms,
        **usage,
    )


def labelled(world: LabelledWorld, task: LabelledTask, repeat: int, **came: Any) -> TaskRun:
    """A run with its labels; `came` is what became of it."""
    return TaskRun(
        world=world.name,
        task=task.key,
        category=task.category,
        repeat=repeat,
        essential=tuple(sorted(task.essential)),
        useful=tuple(sorted(task.useful)),
        forbidden=tuple(sorted(task.forbidden)),
        **came,
    )


async def _usage(backend: Backend, world: LabelledWorld, result: InjectionResult) -> dict[str, Any]:
    """What the model took, as the receipt has it."""
    if result.receipt_id is None:
        return {}
    for _ in range(RECEIPT_TRIES):
        await asyncio.sleep(RECEIPT_PAUSE_S)
        try:
            payload = {"tenant": world.name, "id": result.receipt_id}
            model = (await backend.call(RECEIPT, payload, budget=RECEIPT_BUDGET_S))["model"]
        except MeeseeksError:
            continue  # not written yet, or not whole
        else:
            names = {"model_calls": "calls", **{name: name for name in ("input_tokens", "output_tokens", "cost")}}
            return {name: model[of] for name, of in names.items()} if model else {}
    return {}


def _report(evaluation: Evaluation, now: datetime) -> Report:
    plan = evaluation.plan
    runs = tuple(sorted(evaluation.runs, key=lambda run: (run.world, run.task, run.repeat)))
    setup = plan.setup()
    identity = json.dumps(
        [setup.model_dump(mode="json"), [run.model_dump(mode="json") for run in runs]], sort_keys=True
    )
    missing = plan.runs - len(runs)
    return Report(
        id=sha256(identity)[:10],
        at=now,
        setup=setup,
        runs=runs,
        messages={
            world.name: {task.key: task.request.message[:TEXT_CHARS] for task in world.tasks} for world in plan.worlds
        },
        memories=_memories(plan, runs),
        missing=missing,
        stopped=f"{evaluation.cost_budget.spent:.4f} dollars were spent, {plan.max_cost} is the most"
        if missing
        else None,
        cached=evaluation.cached,
    )


def _memories(plan: EvaluationPlan, runs: Sequence[TaskRun]) -> dict[str, dict[str, str]]:
    """The texts of memories that runs speak of."""
    wanted = set(spoken_of(runs))
    return {
        world.name: {
            memory.id: memory.content[:TEXT_CHARS] for memory in world.memories if (world.name, memory.id) in wanted
        }
        for world in plan.worlds
    }
