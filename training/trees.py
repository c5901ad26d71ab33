"""Fits boosted oblivious trees with Newton steps on histograms; the same rows and seed give the same trees."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.judging_trees import Floats, Trees

Codes = npt.NDArray[np.uint8]

BINS = 48
"""Most values that a column is told apart by."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How trees are grown. `columns` and `rows` are the shares of them that a tree is given; `prior` is how many rows'
    worth of doubt there is about a leaf."""

    trees: int = 400
    depth: int = 5
    rate: float = 0.05
    columns: float = 0.35
    rows: float = 0.8
    prior: float = 8.0
    seed: int = 0


def limits_of(rows: Floats) -> list[Floats]:
    """Per column the limits that are asked about: quantiles, each once."""
    shares = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
    found = []
    for column in rows.T:
        limits = np.unique(np.quantile(column, shares, method="lower").astype(np.float32))
        found.append(limits[limits < column.max()])
    return found


def coded(rows: Floats, limits: list[Floats]) -> Codes:
    """Per column (first axis) how many of its limits each row exceeds."""
    return np.stack(
        [
            np.searchsorted(known, column, side="left").astype(np.uint8)
            for column, known in zip(rows.T, limits, strict=True)
        ]
    )


def grow(
    rows: Floats,
    wanted: Floats,
    weights: Floats,
    groups: npt.NDArray[np.int64],
    growth: Growth,
    step: Callable[[], None] = lambda: None,
) -> Trees:
    """Trees for the logarithm of the odds of `wanted` (0..1); rows of a group are given to a tree together."""
    limits = limits_of(rows)
    codes = coded(rows, limits)
    usable = np.flatnonzero([len(known) > 0 for known in limits])
    random = np.random.default_rng(growth.seed)
    mean = float(np.average(wanted, weights=weights))
    start = float(np.log(mean / (1.0 - mean)))
    score = np.full(len(rows), start)
    grown: list[tuple[list[int], list[float], Floats]] = []
    members = np.unique(groups)
    for _ in range(growth.trees):
        chosen = random.random(len(members)) < growth.rows
        taken = np.flatnonzero(chosen[np.searchsorted(members, groups)])
        columns = np.sort(random.permutation(usable)[: max(1, round(growth.columns * len(usable)))])
        chance = 1.0 / (1.0 + np.exp(-score))
        slope, bend = (chance - wanted) * weights, chance * (1.0 - chance) * weights
        questions = _questions(codes, columns, [len(limits[column]) for column in columns], taken, slope, bend, growth)
        leaf = _leaf(codes, questions, len(rows))
        total = np.bincount(leaf[taken], slope[taken], 2**growth.depth)
        doubt = np.bincount(leaf[taken], bend[taken], 2**growth.depth) + growth.prior
        leaves = (-growth.rate * total / doubt).astype(np.float32)
        score += leaves[leaf]
        grown.append(
            ([column for column, _ in questions], [float(limits[column][place]) for column, place in questions], leaves)
        )
        step()
    return Trees(
        np.array([columns for columns, _, _ in grown], dtype=np.int32),
        np.array([asked for _, asked, _ in grown], dtype=np.float32),
        np.array([leaves for _, _, leaves in grown], dtype=np.float32),
        start,
    )


def _leaf(codes: Codes, questions: list[tuple[int, int]], number: int) -> npt.NDArray[np.int64]:
    leaf = np.zeros(number, dtype=np.int64)
    for level, (column, place) in enumerate(questions):
        leaf += (codes[column] > place).astype(np.int64) << level
    return leaf


def _questions(
    codes: Codes,
    columns: npt.NDArray[np.int64],
    asked: list[int],
    taken: npt.NDArray[np.int64],
    slope: npt.NDArray[np.float64],
    bend: npt.NDArray[np.float64],
    growth: Growth,
) -> list[tuple[int, int]]:
    """The question of each level, the one that gains most given those before it."""
    table = codes[np.ix_(columns, taken)].astype(np.int32)
    slopes, bends = slope[taken], bend[taken]
    known = np.arange(BINS - 1) < np.array(asked)[:, None]
    leaf = np.zeros(len(taken), dtype=np.int32)
    questions: list[tuple[int, int]] = []
    for level in range(growth.depth):
        place = _best(table, leaf, 2**level, known, slopes, bends, growth.prior)
        column, limit = divmod(place, BINS - 1)
        questions.append((int(columns[column]), limit))
        leaf += (table[column] > limit).astype(np.int32) << level
    return questions


def _best(
    table: npt.NDArray[np.int32],
    leaf: npt.NDArray[np.int32],
    leaves: int,
    known: npt.NDArray[np.bool_],
    slope: npt.NDArray[np.float64],
    bend: npt.NDArray[np.float64],
    prior: float,
) -> int:
    """The place, column by column, of the limit that gains most summed over the leaves."""
    number = len(table)
    cells = leaves * BINS
    places = (table + leaf * BINS + (np.arange(number, dtype=np.int32) * cells)[:, None]).ravel()
    shape = (number, leaves, BINS)
    slopes = np.bincount(places, np.tile(slope, number), number * cells).reshape(shape).cumsum(axis=2)
    bends = np.bincount(places, np.tile(bend, number), number * cells).reshape(shape).cumsum(axis=2)
    left, below = slopes[:, :, :-1], bends[:, :, :-1]
    right, above = slopes[:, :, -1:] - left, bends[:, :, -1:] - below
    gain = (left**2 / (below + prior) + right**2 / (above + prior)).sum(axis=1)
    return int(np.where(known, gain, -np.inf).argmax())
