"""Fit boosted trees with Newton steps on histograms; the same rows and seed give the same trees.

Split limits are drawn at random (Geurts, Ernst and Wehenkel 2006, "Extremely randomized trees"), which generalizes
better to unseen worlds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.relevance.trees import Floats, Trees

Codes = npt.NDArray[np.uint8]
Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

BINS = 48
"""Most bins per column."""

BITS = 14
"""Significant bits of a limit, few enough that search scores are the same in every run."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How to grow trees. `columns` and `rows` are the shares sampled for each tree; `prior` regularizes the leaves."""

    trees: int = 800
    depth: int = 4
    rate: float = 0.04
    columns: float = 0.35
    rows: float = 0.25
    prior: float = 8.0
    seed: int = 0


def limits_of(rows: Floats) -> list[Floats]:
    """Return the possible split limits of each column: its distinct quantiles."""
    shares = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
    found = []
    for column in rows.T:
        limits = np.unique(_coarse(np.quantile(column, shares, method="lower").astype(np.float32)))
        found.append(limits[limits < column.max()])
    return found


def _coarse(values: Floats) -> Floats:
    """Round up to `BITS` significant bits, so that values stay below their limit."""
    mantissas, exponents = np.frexp(values)
    rounded: Floats = np.ldexp(np.ceil(mantissas * 2.0**BITS) / 2.0**BITS, exponents).astype(np.float32)
    return rounded


def coded(rows: Floats, limits: list[Floats]) -> Codes:
    """Return how many limits of each column (first axis) each row exceeds."""
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
    groups: Integers,
    growth: Growth,
    step: Callable[[], None] = lambda: None,
) -> Trees:
    """Grow trees that predict the log odds of `wanted` (0..1); rows of a group are sampled together."""
    limits = limits_of(rows)
    codes = coded(rows, limits)
    numbers = np.array([len(known) for known in limits])
    random = np.random.default_rng(growth.seed)
    mean = float(np.average(wanted, weights=weights))
    start = float(np.log(mean / (1.0 - mean)))
    score = np.full(len(rows), start)
    members, member = np.unique(groups, return_inverse=True)
    grown: list[tuple[Integers, Floats, Floats]] = []
    for _ in range(growth.trees):
        taken = np.flatnonzero((random.random(len(members)) < growth.rows)[member])
        chance = 1.0 / (1.0 + np.exp(-score))
        slope, bend = (chance - wanted) * weights, chance * (1.0 - chance) * weights
        columns = _drawn(random, np.flatnonzero(numbers), growth.columns)
        sample = _Sample(codes[np.ix_(columns, taken)].astype(np.int32), slope[taken], bend[taken], growth.prior)
        chosen, places = _splits(sample, numbers[columns], growth.depth, random)
        leaf = _leaf(codes, columns[chosen], places)
        leaves = _leaves(leaf[taken], sample, growth)
        score += leaves[leaf]
        split = [limits[column][place] for column, place in zip(columns[chosen], places, strict=True)]
        grown.append((columns[chosen], np.array(split, dtype=np.float32), leaves))
        step()
    return Trees(
        np.array([columns for columns, _, _ in grown], dtype=np.int32),
        np.array([split for _, split, _ in grown], dtype=np.float32),
        np.array([leaves for _, _, leaves in grown], dtype=np.float32),
        start,
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """Codes (columns, rows) and first and second derivatives of the loss by row, for one tree."""

    codes: npt.NDArray[np.int32]
    slope: Doubles
    bend: Doubles
    prior: float


def _drawn(random: np.random.Generator, columns: Integers, share: float) -> Integers:
    return np.sort(random.permutation(columns)[: max(1, round(share * len(columns)))])


def _splits(sample: _Sample, numbers: Integers, depth: int, random: np.random.Generator) -> tuple[Integers, Integers]:
    """Return the column and limit of each node, level by level: the best of one drawn limit per column and node."""
    every = np.arange(len(sample.slope))
    leaf = np.zeros(len(sample.slope), dtype=np.int32)
    columns, places = [], []
    for level in range(depth):
        drawn = (random.random((len(numbers), 2**level)) * numbers[:, None]).astype(np.int64)
        best = _gains(sample, leaf, drawn).argmax(axis=0)
        limit = drawn[best, np.arange(2**level)]
        leaf = 2 * leaf + (sample.codes[best[leaf], every] > limit[leaf])
        columns.append(best)
        places.append(limit)
    return np.concatenate(columns), np.concatenate(places)


def _gains(sample: _Sample, leaf: npt.NDArray[np.int32], drawn: Integers) -> Doubles:
    """Return the gain of the drawn limit of each column and node."""
    number, nodes = drawn.shape
    cells = nodes * BINS
    where = (sample.codes + leaf * BINS + (np.arange(number, dtype=np.int32) * cells)[:, None]).ravel()

    def split(values: Doubles) -> tuple[Doubles, Doubles]:
        sums = np.bincount(where, np.tile(values, number), number * cells).reshape(number, nodes, BINS).cumsum(axis=2)
        left: Doubles = np.take_along_axis(sums, drawn[:, :, None], axis=2)[:, :, 0]
        return left, sums[:, :, -1] - left

    (left, right), (below, above) = split(sample.slope), split(sample.bend)
    return left**2 / (below + sample.prior) + right**2 / (above + sample.prior)


def _leaf(codes: Codes, columns: Integers, places: Integers) -> Integers:
    last = len(columns)
    every = np.arange(codes.shape[1])
    node = np.zeros(codes.shape[1], dtype=np.int64)
    while node[0] < last:
        node = 2 * node + 1 + (codes[columns[node], every] > places[node])
    return node - last


def _leaves(leaf: Integers, sample: _Sample, growth: Growth) -> Floats:
    """Return the Newton step of each leaf."""
    total = np.bincount(leaf, sample.slope, 2**growth.depth)
    doubt = np.bincount(leaf, sample.bend, 2**growth.depth) + growth.prior
    return (-growth.rate * total / doubt).astype(np.float32)
