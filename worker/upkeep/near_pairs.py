"""Find pairs of near vectors among many, without comparing every two of them in full. Pure.

A random projection to a few dimensions rules out most pairs; the others are compared in full, tile by tile, so that
memory stays small and the work can be interrupted between tiles.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .scan import PackedRows

TILE = 1024
DIMENSIONS = 64
"""Dimensions of the projection, whose cosines miss the real ones by `(1 - cosine²) / 8` on average."""

MOST_NEAR = 16
"""Most pairs of a row in a tile, the nearest; the others are found when those are merged."""

MOST_APART = 8192
"""Pairs of a tile up to which they are compared one by one."""

Rows = npt.NDArray[np.float32]
Pair = tuple[int, int]


def near_pairs(rows: PackedRows, threshold: float) -> Iterator[list[Pair]]:
    """Return pairs of rows with a cosine of at least `threshold`, a list for each tile."""
    if not rows.any():
        return
    tiles = (rows[start : start + TILE].astype(np.float32) for start in range(0, len(rows), TILE))
    few = np.concatenate([_unit(_unit(tile) @ _projection(rows.shape[1])) for tile in tiles])
    least = threshold - 0.5 * (1.0 - threshold * threshold) - 0.01
    for first in range(0, len(rows), TILE):
        for second in range(first, len(rows), TILE):
            yield _tile(rows, few, (first, second), least, threshold)


def _tile(rows: PackedRows, few: Rows, at: Pair, least: float, threshold: float) -> list[Pair]:
    first, second = (slice(start, start + TILE) for start in at)
    likely = few[first] @ few[second].T >= least
    if at[0] == at[1]:
        likely = np.triu(likely, 1)
    one, other = np.nonzero(likely)
    if not len(one):
        return []
    if len(one) > MOST_APART:
        whole = _unit(rows[first].astype(np.float32)) @ _unit(rows[second].astype(np.float32)).T
        cosines = whole[one, other]
    else:
        left, right = rows[first][one].astype(np.float32), rows[second][other].astype(np.float32)
        cosines = np.einsum("ij,ij->i", _unit(left), _unit(right))
    near = cosines >= threshold
    return _nearest(one[near] + at[0], other[near] + at[1], cosines[near])


def _nearest(one: npt.NDArray[np.intp], other: npt.NDArray[np.intp], cosines: Rows) -> list[Pair]:
    counts: dict[int, int] = {}
    kept: list[Pair] = []
    for place in np.argsort(-cosines, kind="stable").tolist():
        pair = int(one[place]), int(other[place])
        counts[pair[0]] = counts.get(pair[0], 0) + 1
        if counts[pair[0]] <= MOST_NEAR:
            kept.append(pair)
    return kept


def groups_of(pairs: Sequence[Pair]) -> list[list[int]]:
    """Return groups of what is connected by pairs, each sorted."""
    leader: dict[int, int] = {}

    def find(one: int) -> int:
        while leader.setdefault(one, one) != one:
            leader[one] = one = leader[leader[one]]
        return one

    for one, other in pairs:
        first, second = sorted((find(one), find(other)))
        leader[second] = first
    groups: dict[int, list[int]] = {}
    for one in sorted(leader):
        groups.setdefault(find(one), []).append(one)
    return list(groups.values())


@lru_cache(maxsize=1)
def _projection(width: int) -> Rows:
    made = np.random.default_rng(0).standard_normal((width, DIMENSIONS))
    return (made / math.sqrt(DIMENSIONS)).astype(np.float32)


def _unit(rows: Rows) -> Rows:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows / np.where(lengths > 0.0, lengths, 1.0)).astype(np.float32)
