"""Fits boosted trees with Newton steps on histograms; the same rows and seed give the same trees.

Every question has to do with limits that were drawn (Geurts, Ernst and Wehenkel 2006, "Extremely randomized trees"):
trees that differ more err less together, and unseen worlds are what counts here.
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
"""Most values that a column is told apart by."""

BITS = 14
"""Binary digits of a limit: far fewer than a score of the search is the same in from run to run."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How trees are grown. `columns` and `rows` are the shares of them that a tree is given; `prior` is how many rows'
    worth of doubt there is about a leaf."""

    trees: int = 800
    depth: int = 4
    rate: float = 0.04
    columns: float = 0.35
    rows: float = 0.25
    prior: float = 8.0
    seed: int = 0


def limits_of(rows: Floats) -> list[Floats]:
    """Per column the limits that are asked about: quantiles, each once."""
    shares = np.linspace(0.0, 1.0, BINS + 1)[1:-1]
    found = []
    for column in rows.T:
        limits = np.unique(_coarse(np.quantile(column, shares, method="lower").astype(np.float32)))
        found.append(limits[limits < column.max()])
    return found


def _coarse(values: Floats) -> Floats:
    """The next numbers of few digits, not below: what was under a limit stays there."""
    mantissas, exponents = np.frexp(values)
    rounded: Floats = np.ldexp(np.ceil(mantissas * 2.0**BITS) / 2.0**BITS, exponents).astype(np.float32)
    return rounded


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
    groups: Integers,
    growth: Growth,
    step: Callable[[], None] = lambda: None,
) -> Trees:
    """Trees for the logarithm of the odds of `wanted` (0..1); rows of a group are given to a tree together."""
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
        chosen, places = _questions(sample, numbers[columns], growth.depth, random)
        leaf = _leaf(codes, columns[chosen], places)
        leaves = _leaves(leaf[taken], sample, growth)
        score += leaves[leaf]
        asked = [limits[column][place] for column, place in zip(columns[chosen], places, strict=True)]
        grown.append((columns[chosen], np.array(asked, dtype=np.float32), leaves))
        step()
    return Trees(
        np.array([columns for columns, _, _ in grown], dtype=np.int32),
        np.array([asked for _, asked, _ in grown], dtype=np.float32),
        np.array([leaves for _, _, leaves in grown], dtype=np.float32),
        start,
    )


@dataclass(frozen=True, slots=True)
class _Sample:
    """What a tree is grown on: codes (columns, rows), first and second derivatives of the loss by row, and doubt."""

    codes: npt.NDArray[np.int32]
    slope: Doubles
    bend: Doubles
    prior: float


def _drawn(random: np.random.Generator, columns: Integers, share: float) -> Integers:
    return np.sort(random.permutation(columns)[: max(1, round(share * len(columns)))])


def _questions(
    sample: _Sample, numbers: Integers, depth: int, random: np.random.Generator
) -> tuple[Integers, Integers]:
    """By node, level after level, the place of the column and that of the limit; of one drawn limit per column and
    node the one that gains most."""
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
    """By column and node what is gained by asking about the limit that was drawn for both."""
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
    """The leaf that each row comes to."""
    last = len(columns)
    every = np.arange(codes.shape[1])
    node = np.zeros(codes.shape[1], dtype=np.int64)
    while node[0] < last:
        node = 2 * node + 1 + (codes[columns[node], every] > places[node])
    return node - last


def _leaves(leaf: Integers, sample: _Sample, growth: Growth) -> Floats:
    """The step that Newton's method takes in each leaf."""
    total = np.bincount(leaf, sample.slope, 2**growth.depth)
    doubt = np.bincount(leaf, sample.bend, 2**growth.depth) + growth.prior
    return (-growth.rate * total / doubt).astype(np.float32)
