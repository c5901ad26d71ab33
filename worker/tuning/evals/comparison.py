"""Compare two evaluations of the same tasks: differences with intervals, and the tasks that changed. Pure.

Both are resampled together, so how hard a task is affects neither the differences nor their intervals.
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
    """Meaning of a difference: better or worse only if its whole interval is on one side of zero."""

    BETTER = "better"
    WORSE = "worse"
    UNCLEAR = "unclear"
    SAME = "same"


@dataclass(frozen=True, slots=True)
class Difference:
    """A measure in both evaluations; `difference` is `after - before`, with its interval from `low` to `high`."""

    measure: Measure
    before: float
    after: float
    difference: float
    low: float
    high: float

    @property
    def gain(self) -> tuple[float, float, float]:
        """Return difference and interval, with the sign flipped if lower values are better."""
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
    """A task with different injections; see `faults_of` for how faults count."""

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
    """A comparison of the `tasks` in both; `only_before` and `only_after` count the others."""

    differences: tuple[Difference, ...]
    changes: tuple[TaskChange, ...]
    tasks: int
    only_before: int = 0
    only_after: int = 0


def compare(before: Report, after: Report, rng: np.random.Generator, draws: int) -> EvaluationComparison:
    """Compare the tasks that both evaluations have.

    Raise `SettingsError` if they share no task, or if a world's files changed in between.
    """
    shared = set(before.setup.worlds) & set(after.setup.worlds)
    changed = sorted(name for name in shared if before.setup.worlds[name] != after.setup.worlds[name])
    if changed:
        raise SettingsError(f"world {', '.join(changed)} changed between the two evaluations; run both again")
    before_keys, after_keys = ({run.key for run in report.runs} for report in (before, after))
    both = before_keys & after_keys
    if not both:
        raise SettingsError("the two evaluations have no task in common")
    first, second = ([run for run in report.runs if run.key in both] for report in (before, after))
    return EvaluationComparison(
        _differences(MeasureTable.of(first), MeasureTable.of(second), rng, draws),
        tuple(_changes(first, second)),
        tasks=len(both),
        only_before=len(before_keys - both),
        only_after=len(after_keys - both),
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
    """Return the changed tasks: worse ones first, then better ones, then the rest."""
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
        mean_faults(before),
        mean_faults(after),
    )


def mean_faults(runs: Sequence[TaskRun]) -> float:
    """Return the mean number of faults in the runs of one task."""
    return sum(map(faults_of, runs)) / len(runs)


FORBIDDEN_WEIGHT = 5


def faults_of(run: TaskRun) -> int:
    """Count missing essential memories and irrelevant injected ones; a forbidden one counts `FORBIDDEN_WEIGHT` more."""
    injected = set(run.injected)
    missing, wrong = set(run.essential) - injected - set(run.known), injected - run.relevant
    return len(missing) + len(wrong) + FORBIDDEN_WEIGHT * len(injected & set(run.forbidden))
