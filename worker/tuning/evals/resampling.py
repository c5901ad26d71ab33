"""Estimate intervals by resampling. Pure.

This is the cluster bootstrap (Efron 1979): worlds are drawn with replacement, then tasks inside each drawn world,
because tasks of one world share its memories. Intervals are percentile intervals. A resampling is a row of weights: how
often each task was drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
SEED = 2026
"""Seed of all resampling, so that the same results have the same intervals."""

LEVEL = 0.95

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


def task_weights(groups: Sequence[int], draws: int, rng: np.random.Generator) -> Numbers:
    """Return how often each resampling draws each task, shape (draws, tasks); `groups` has each world's task count."""
    if not groups:
        return np.zeros((draws, 0))
    worlds = len(groups)
    picked = rng.multinomial(worlds, np.full(worlds, 1.0 / worlds), size=draws)
    columns = [
        rng.multinomial(picked[:, place] * tasks, np.full(tasks, 1.0 / tasks)) for place, tasks in enumerate(groups)
    ]
    return np.concatenate(columns, axis=1).astype(np.float64)


def ratio(numerators: Numbers, denominators: Numbers) -> float | None:
    """Return the ratio of the sums, or `None` if the denominator is 0."""
    total = float(denominators.sum())
    return float(numerators.sum()) / total if total > 0 else None


def ratio_draws(weights: Numbers, numerators: Numbers, denominators: Numbers) -> Numbers:
    """Return the ratio of the sums in each resampling, NaN where the denominator is 0."""
    below = weights @ denominators
    found: Numbers = np.full(len(weights), np.nan)
    np.divide(weights @ numerators, below, out=found, where=below > 0)
    return found


def quantile(values: Numbers, share: float) -> float | None:
    """Return the lowest value that at least `share` (0 to 1) of all values do not exceed."""
    if not len(values):
        return None
    return float(np.sort(values)[max(0, int(np.ceil(share * len(values))) - 1)])


def quantile_draws(weights: Numbers, values: Numbers, share: float) -> Numbers:
    """Return `quantile` in each resampling, NaN where nothing was drawn; `weights` has the shape (draws, values)."""
    if not values.size:
        return np.full(len(weights), np.nan)
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[:, order], axis=1)
    totals = reached[:, -1:]
    places = np.argmax(reached >= share * totals - 1e-9, axis=1)
    return np.where(totals[:, 0] > 0, values[order][places], np.nan)


def interval(draws: Numbers, level: float = LEVEL) -> tuple[float, float]:
    """Return the percentile interval of the draws that are not NaN, or two NaN if all are."""
    known = draws[~np.isnan(draws)]
    if not known.size:
        return float("nan"), float("nan")
    rest = (1.0 - level) / 2.0
    low, high = np.quantile(known, [rest, 1.0 - rest])
    return float(low), float(high)
