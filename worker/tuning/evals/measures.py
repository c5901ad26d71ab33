"""Measures of evaluations and their intervals, as defined in `prompts/cases/README.md`. Pure.

Ratios divide sums over all tasks and are not means of ratios: a task without injections does not affect precision.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .resampling import (
    DRAWS,
    SEED,
    Estimate,
    Numbers,
    interval,
    quantile,
    quantile_draws,
    ratio,
    ratio_draws,
    task_weights,
)
from .results import Report, TaskRun, by_task


class Measure(StrEnum):
    """A measure; rates are from 0 to 1, times in milliseconds, costs in US dollars."""

    PRECISION = "precision"
    RECALL = "recall_essential"
    CLEAN = "clean_turn_rate"
    FORBIDDEN = "forbidden_rate"
    ITEMS = "items_per_turn"
    FALLBACK = "fallback_rate"
    P50 = "p50_ms"
    P95 = "p95_ms"
    TOKENS = "tokens_per_turn"
    COST = "cost_per_turn"


HIGHER_IS_BETTER = frozenset({Measure.PRECISION, Measure.RECALL, Measure.CLEAN})
NEUTRAL = frozenset({Measure.ITEMS})
"""Measures for which neither direction is better."""

QUANTILES: Mapping[Measure, float] = {Measure.P50: 0.5, Measure.P95: 0.95}

Part = Callable[[TaskRun], tuple[float, float]]

RATIOS: Mapping[Measure, Part] = {
    Measure.PRECISION: lambda run: (len(run.relevant & set(run.injected)), len(run.injected)),
    Measure.RECALL: lambda run: (len(set(run.essential) & {*run.injected, *run.known}), len(run.essential)),
    Measure.CLEAN: lambda run: (not run.relevant and not run.injected, not run.relevant),
    Measure.FORBIDDEN: lambda run: (bool(set(run.forbidden) & set(run.injected)), 1),
    Measure.ITEMS: lambda run: (len(run.injected), 1),
    Measure.FALLBACK: lambda run: (run.degraded, 1),
    Measure.TOKENS: lambda run: (run.input_tokens + run.output_tokens, 1),
    Measure.COST: lambda run: (run.cost or 0.0, 1),
}
"""What a run adds to the numerator and the denominator of each ratio."""


@dataclass(frozen=True, slots=True)
class MeasureTable:
    """Runs as numbers, one row per task (repeats included), grouped by world.

    `sums` maps each ratio to numerators and denominators, shape (tasks,) each. `times` are all runs' milliseconds, and
    `owners` is the row of each.
    """

    keys: tuple[tuple[str, str], ...]
    groups: tuple[int, ...]
    sums: Mapping[Measure, tuple[Numbers, Numbers]]
    times: Numbers
    owners: NDArray[np.intp]

    @classmethod
    def of(cls, runs: Sequence[TaskRun]) -> Self:
        tasks = by_task(runs)
        keys = tuple(tasks)
        parts = {measure: _parts(part, list(tasks.values())) for measure, part in RATIOS.items()}
        times = [(run.elapsed_ms, row) for row, repeats in enumerate(tasks.values()) for run in repeats]
        return cls(
            keys,
            tuple(len(list(group)) for _, group in groupby(keys, key=lambda key: key[0])),
            parts,
            np.array([spent for spent, _ in times], dtype=np.float64),
            np.array([row for _, row in times], dtype=np.intp),
        )

    def value(self, measure: Measure) -> float | None:
        """Return the measure over all tasks, or `None` if no task counts for it."""
        if measure in QUANTILES:
            return quantile(self.times, QUANTILES[measure])
        return ratio(*self.sums[measure])

    def draws(self, measure: Measure, weights: Numbers) -> Numbers:
        """Return the measure for each resampling; `weights` has the shape (resamplings, tasks)."""
        if measure in QUANTILES:
            return quantile_draws(weights[:, self.owners], self.times, QUANTILES[measure])
        return ratio_draws(weights, *self.sums[measure])


def _parts(part: Part, tasks: Sequence[Sequence[TaskRun]]) -> tuple[Numbers, Numbers]:
    found = np.array([np.sum([part(run) for run in repeats], axis=0) for repeats in tasks], dtype=np.float64)
    return found.reshape(-1, 2)[:, 0], found.reshape(-1, 2)[:, 1]


Summary = Mapping[Measure, Estimate]


def summary(runs: Sequence[TaskRun], rng: np.random.Generator, draws: int) -> Summary:
    """Return measures with their intervals, without those for which no task counts."""
    table = MeasureTable.of(runs)
    weights = task_weights(table.groups, draws, rng)
    values = {measure: table.value(measure) for measure in Measure}
    return {
        measure: Estimate(value, *interval(table.draws(measure, weights)))
        for measure, value in values.items()
        if value is not None
    }


def summaries_of(report: Report) -> Mapping[str, Summary]:
    """Return the measures of all tasks, under the empty name, and of each category."""
    rng = np.random.default_rng(SEED)
    found = {"": summary(report.runs, rng, DRAWS)}
    for category in report.categories:
        found[category] = summary([run for run in report.runs if run.category == category], rng, DRAWS)
    return found
