"""Resampling: how far numbers would be elsewhere had other tasks, and other worlds, been drawn. Pure.

The bootstrap of Efron (1979) with clusters: worlds are drawn with replacement, then tasks inside each drawn world,
since tasks of one world share its memories and are more alike than tasks of several. With one world, tasks alone are
drawn.
Intervals are percentile intervals. A resampling is a row of weights: how often each task was drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

DRAWS = 2000
LEVEL = 0.95

Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and the interval in which it would be found 95 times of 100, were the tasks drawn anew."""

    value: float
    low: float
    high: float


def task_weights(groups: Sequence[int], draws: int, rng: np.random.Generator) -> Numbers:
    """How often each task is drawn in each resampling: shape (draws, tasks).

    `groups` are the numbers of tasks of each world, in the order of the tasks. A row sums to the number of tasks where
    all worlds are equally large.
    """
    if not groups:
        return np.zeros((draws, 0))
    worlds = len(groups)
    picked = rng.multinomial(worlds, np.full(worlds, 1.0 / worlds), size=draws)
    columns = [
        rng.multinomial(picked[:, place] * tasks, np.full(tasks, 1.0 / tasks)) for place, tasks in enumerate(groups)
    ]
    return np.concatenate(columns, axis=1).astype(np.float64)


def ratio(numerators: Numbers, denominators: Numbers) -> float | None:
    """The ratio of the sums; `None` without a denominator."""
    total = float(denominators.sum())
    return float(numerators.sum()) / total if total > 0 else None


def ratio_draws(weights: Numbers, numerators: Numbers, denominators: Numbers) -> Numbers:
    """The ratio of the sums in each resampling; NaN where nothing that counts was drawn."""
    below = weights @ denominators
    found: Numbers = np.full(len(weights), np.nan)
    np.divide(weights @ numerators, below, out=found, where=below > 0)
    return found


def quantile(values: Numbers, share: float) -> float | None:
    """The least value that a share (0 to 1) of all values do not exceed."""
    if not len(values):
        return None
    return float(np.sort(values)[max(0, int(np.ceil(share * len(values))) - 1)])


def quantile_draws(weights: Numbers, values: Numbers, share: float) -> Numbers:
    """`quantile` in each resampling; `weights` has the shape (draws, values). NaN where nothing was drawn."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[:, order], axis=1)
    totals = reached[:, -1:] if values.size else np.zeros((len(weights), 1))
    if not values.size:
        return np.full(len(weights), np.nan)
    places = np.argmax(reached >= share * totals - 1e-9, axis=1)
    found = values[order][places]
    return np.where(totals[:, 0] > 0, found, np.nan)


def interval(draws: Numbers, level: float = LEVEL) -> tuple[float, float]:
    """The middle `level` of the resamplings; those without a number are left out, and without any it is NaN twice."""
    known = draws[~np.isnan(draws)]
    if not known.size:
        return float("nan"), float("nan")
    rest = (1.0 - level) / 2.0
    low, high = np.quantile(known, [rest, 1.0 - rest])
    return float(low), float(high)
