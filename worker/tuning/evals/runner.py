"""Run the tasks of labelled worlds through the real service, without its queue, one temporary store per world.

Every task runs in its own session, at its own time.
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
from worker.domain.errors import MeeseeksError
from worker.domain.operation import AnyOperation
from worker.operations.registry import INJECT, PUT, RECEIPT
from worker.settings.injection import Settings
from worker.text.excerpts import head
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

from .archive import EvaluationArchive
from .plan import EvaluationPlan
from .results import TEXT_CHARS, Report, TaskRun, sha256

BATCH = 100
PUT_BUDGET_S = 120.0
RECEIPT_BUDGET_S = 2.0
RECEIPT_TRIES = 40
RECEIPT_PAUSE_S = 0.02
"""The service writes a receipt after it has sent the answer."""

WARM_UP_TRIES = 40
WARM_UP_PAUSE_S = 0.5
STILL_LOADING = frozenset({Reason.MODEL_NO_TIME, Reason.MODEL_TIMEOUT, Reason.MODEL_PAUSED})
"""Reasons given while a model is still loading."""

LATE_S = 0.5
"""Extra seconds to wait for an answer after a request's deadline."""


class Backend(Protocol):
    """Call operations of the service by name. Raise `MeeseeksError`."""

    async def call(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = 10.0
    ) -> dict[str, Any]: ...


Opener = Callable[[Settings], AbstractAsyncContextManager[Backend]]
"""Opens the service of one world."""

Advance = Callable[[int], None]
"""Reports the number of finished runs."""


@dataclass(slots=True)
class CostBudget:
    """US dollars spent and the maximum to spend; calls of unknown cost count as free."""

    most: float | None
    spent: float = 0.0

    @property
    def empty(self) -> bool:
        return self.most is not None and self.spent >= self.most

    def pay(self, cost: float | None) -> None:
        self.spent += cost or 0.0


@dataclass(slots=True)
class Evaluation:
    """The state of an evaluation; `cached` counts the runs taken from the archive."""

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
    """Run a plan and return its report; reuse results in `archive` unless `fresh`.

    Raise `MeeseeksError` if the service cannot be opened. A failed request becomes a degraded run.
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
        sound = [run for run in made if not run.degraded]  # retry degraded runs next time
        if archive and sound:
            archive.keep_results(key, sorted((*known.values(), *sound), key=lambda run: (run.task, run.repeat)))
    return kept + made


async def _run(
    evaluation: Evaluation, world: LabelledWorld, missing: Sequence[tuple[LabelledTask, int]], made: list[TaskRun]
) -> None:
    """Run tasks of a world in parallel and append each to `made`, so that an interruption loses none."""
    slots = asyncio.Semaphore(evaluation.plan.parallel)
    with tempfile.TemporaryDirectory(prefix="meeseeks-eval-") as folder:
        settings = evaluation.plan.settings_for(world, Path(folder))
        async with evaluation.open_service(settings) as backend:
            await _store(backend, world)
            await _warm_up(evaluation, backend, world)

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


async def _warm_up(evaluation: Evaluation, backend: Backend, world: LabelledWorld) -> None:
    """Ask once, since a first answer takes longer; while a model is loading, until it answers or fails otherwise."""
    first = next((task for task in world.tasks if task.essential), world.tasks[0])
    for _ in range(WARM_UP_TRIES):
        run = await ask(backend, world, first, -1, evaluation.plan.deadline_ms)
        evaluation.cost_budget.pay(run.cost)
        if run.reason not in STILL_LOADING or evaluation.cost_budget.empty:
            return
        await asyncio.sleep(WARM_UP_PAUSE_S)


async def ask(backend: Backend, world: LabelledWorld, task: LabelledTask, repeat: int, deadline_ms: int) -> TaskRun:
    """Run a task once, in its own session."""
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


def labelled(world: LabelledWorld, task: LabelledTask, repeat: int, **result: Any) -> TaskRun:
    return TaskRun(
        world=world.name,
        task=task.key,
        category=task.category,
        repeat=repeat,
        essential=tuple(sorted(task.essential)),
        useful=tuple(sorted(task.useful)),
        forbidden=tuple(sorted(task.forbidden)),
        **result,
    )


async def _usage(backend: Backend, world: LabelledWorld, result: InjectionResult) -> dict[str, Any]:
    """Return the model's usage from the receipt."""
    if result.receipt_id is None:
        return {}
    for _ in range(RECEIPT_TRIES):
        await asyncio.sleep(RECEIPT_PAUSE_S)
        try:
            payload = {"tenant": world.name, "id": result.receipt_id}
            model = (await backend.call(RECEIPT, payload, budget=RECEIPT_BUDGET_S))["model"]
        except MeeseeksError:
            continue  # not written yet
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
            one.name: {task.key: head(task.request.message, TEXT_CHARS) for task in one.tasks} for one in plan.worlds
        },
        memories=_memories(plan, runs),
        missing=missing,
        stopped=f"spent {evaluation.cost_budget.spent:.4f} of {plan.max_cost} dollars" if missing else None,
        cached=evaluation.cached,
    )


def _memories(plan: EvaluationPlan, runs: Sequence[TaskRun]) -> dict[str, dict[str, str]]:
    """Return the clipped texts of all essential and injected memories."""
    wanted = {(run.world, key) for run in runs for key in (*run.essential, *run.injected)}
    return {
        world.name: {
            memory.id: head(memory.content, TEXT_CHARS)
            for memory in world.memories
            if (world.name, memory.id) in wanted
        }
        for world in plan.worlds
    }
