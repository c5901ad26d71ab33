"""Two evaluations of the same tasks: what differs, whether that is chance, and which tasks changed. Pure.

Both are resampled together, so what is hard about a task is in neither difference nor interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from worker.domain.errors import SettingsError

from .measures import HIGHER_IS_BETTER, NEUTRAL, Measure, MeasureTable
from .resampling import interval, task_weights
from .results import Report, TaskRun, by_task


class Direction(StrEnum):
    """What a difference means: its whole interval is on one side of nothing, or it is not."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure of both, and how much more of it `after` has; `low` and `high` are of the difference."""

    measure: Measure
    before: float
    after: float
    difference: float
    low: float
    high: float

    @property
    def gain(self) -> tuple[float, float, float]:
        """Difference and interval, turned so that more is better."""
        if self.measure in HIGHER_IS_BETTER:
            return self.difference, self.low, self.high
        return -self.difference, -self.high, -self.low

    @property
    def direction(self) -> Direction:
        _, low, high = self.gain
        if self.difference == low == high == 0:
            return Direction.SAME
        if self.measure in NEUTRAL or math.isnan(low):
            return Direction.UNCLEAR
        return Direction.BETTER if low > 0 else Direction.WORSE if high < 0 else Direction.UNCLEAR


@dataclass(frozen=True, slots=True)
class TaskChange:
    """A task for which something else is injected; `faults` count what is missing, superfluous and forbidden."""

    world: str
    task: str
    category: str
    added: tuple[str, ...]
    removed: tuple[str, ...]
    faults_before: float
    faults_after: float

    @property
    def direction(self) -> Direction:
        if self.faults_after == self.faults_before:
            return Direction.UNCLEAR
        return Direction.BETTER if self.faults_after < self.faults_before else Direction.WORSE


@dataclass(frozen=True, slots=True)
class EvaluationComparison:
    """`tasks` are those that both have; `only_before` and `only_after` count the others."""

    differences: tuple[Difference, ...]
    changes: tuple[TaskChange, ...]
    tasks: int
    only_before: int = 0
    only_after: int = 0


def compare(before: Report, after: Report, rng: np.random.Generator, draws: int) -> EvaluationComparison:
    """`after` against `before`, on the tasks of both.

    Raises `SettingsError` where they share none, or where a world has changed in between.
    """
    shared = set(before.setup.worlds) & set(after.setup.worlds)
    changed = sorted(name for name in shared if before.setup.worlds[name] != after.setup.worlds[name])
    if changed:
        raise SettingsError(f"{', '.join(changed)}: the world has changed between the two; evaluate both again")
    both = {run.key for run in before.runs} & {run.key for run in after.runs}
    if not both:
        raise SettingsError("the two have no task in common")
    first = [run for run in before.runs if run.key in both]
    second = [run for run in after.runs if run.key in both]
    return EvaluationComparison(
        _differences(MeasureTable.of(first), MeasureTable.of(second), rng, draws),
        tuple(_changes(first, second)),
        len(both),
        len({run.key for run in before.runs} - both),
        len({run.key for run in after.runs} - both),
    )


def _differences(
    before: MeasureTable, after: MeasureTable, rng: np.random.Generator, draws: int
) -> tuple[Difference, ...]:
    weights = task_weights(before.groups, draws, rng)
    found = []
    for measure in Measure:
        first, second = before.value(measure), after.value(measure)
        if first is not None and second is not None:
            low, high = interval(after.draws(measure, weights) - before.draws(measure, weights))
            found.append(Difference(measure, first, second, second - first, low, high))
    return tuple(found)


def _changes(before: Sequence[TaskRun], after: Sequence[TaskRun]) -> list[TaskChange]:
    """Worse ones first, then better ones, then those that are neither."""
    first, second = by_task(before), by_task(after)
    found = [_change(first[key], second[key]) for key in first]
    order = [Direction.WORSE, Direction.BETTER, Direction.UNCLEAR]
    changed = [change for change in found if change.added or change.removed]
    return sorted(changed, key=lambda change: (order.index(change.direction), change.world, change.task))


def _change(before: Sequence[TaskRun], after: Sequence[TaskRun]) -> TaskChange:
    one = before[0]
    had, has = ({key for run in runs for key in run.injected} for runs in (before, after))
    return TaskChange(
        one.world,
        one.task,
        one.category,
        tuple(sorted(has - had)),
        tuple(sorted(had - has)),
        faults(before),
        faults(after),
    )


FORBIDDEN_WEIGHT = 5
"""Faults that a forbidden memory counts for, besides being superfluous."""


def faults(runs: Sequence[TaskRun]) -> float:
    """What is wrong with a task's injections, on average: each essential memory that is missing, each memory that is
    neither essential nor useful, and forbidden ones several times."""
    return sum(map(_faults, runs)) / len(runs)


def _faults(run: TaskRun) -> int:
    injected = set(run.injected)
    missing, wrong = set(run.essential) - injected - set(run.known), injected - run.relevant
    return len(missing) + len(wrong) + FORBIDDEN_WEIGHT * len(injected & set(run.forbidden))
