"""Boosted trees of equal depth. Pure.

The nodes of a tree are stored level by level in one row, so NumPy scores many rows by many trees at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]

ROWS_AT_ONCE = 2048


@dataclass(frozen=True, slots=True)
class Trees:
    """A sum of trees, in log odds.

    `columns` and `limits` have the shape (trees, 2 ** depth - 1), `leaves` (trees, 2 ** depth). The child of node `n`
    is `2 n + 2` if the value of its column is greater than its limit, else `2 n + 1`; the leaves come last.
    """

    columns: Integers
    limits: Floats
    leaves: Floats
    start: float

    def __call__(self, rows: Floats) -> Floats:
        """Return the score of each row; `rows` has the shape (rows, columns)."""
        parts = [self._score(rows[start : start + ROWS_AT_ONCE]) for start in range(0, len(rows), ROWS_AT_ONCE)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.float32)

    def _score(self, rows: Floats) -> Floats:
        number, nodes = self.columns.shape
        columns, limits = self.columns.ravel(), self.limits.ravel()
        values, first = np.ascontiguousarray(rows).ravel(), (np.arange(len(rows)) * rows.shape[1])[:, None]
        tree = np.arange(number) * nodes
        node = np.zeros((len(rows), number), dtype=np.int64)
        for _ in range(nodes.bit_length()):
            place = tree + node
            node = 2 * node + 1 + (values.take(first + columns.take(place)) > limits.take(place))
        leaf = node - nodes + np.arange(number) * (nodes + 1)
        found: Floats = self.leaves.ravel().take(leaf).sum(axis=1, dtype=np.float64).astype(np.float32)
        return found + np.float32(self.start)

    def arrays(self, name: str) -> dict[str, npt.NDArray[np.generic]]:
        """Return the arrays that `from_arrays` reads, with the prefix `name`."""
        return {
            f"{name}_columns": self.columns,
            f"{name}_limits": self.limits,
            f"{name}_leaves": self.leaves,
            f"{name}_start": np.array([self.start], dtype=np.float32),
        }


def from_arrays(arrays: Mapping[str, npt.NDArray[np.generic]], name: str, columns: int) -> Trees:
    """Return trees over `columns` columns. Raise `ValueError` or `KeyError` for invalid arrays."""
    used, limits, leaves = (arrays[f"{name}_{part}"] for part in ("columns", "limits", "leaves"))
    number, nodes = used.shape
    whole = (nodes + 1) & nodes == 0
    if not whole or limits.shape != (number, nodes) or leaves.shape != (number, nodes + 1):
        raise ValueError(f"{name}: the trees have wrong shapes: {used.shape}, {limits.shape}, {leaves.shape}")
    if number and not (int(used.min()) >= 0 and int(used.max()) < columns):
        raise ValueError(f"{name}: the trees use unknown columns")
    if not (np.isfinite(limits).all() and np.isfinite(leaves).all()):
        raise ValueError(f"{name}: the trees have numbers that are not finite")
    start = float(arrays[f"{name}_start"][0])
    return Trees(used.astype(np.int32), limits.astype(np.float32), leaves.astype(np.float32), start)


def mean_of(parts: Sequence[Trees]) -> Trees:
    """Return the mean of several sums of trees of equal depth."""
    share = np.float32(1.0 / len(parts))
    return Trees(
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.limits for part in parts]),
        np.concatenate([part.leaves for part in parts]) * share,
        float(np.mean([part.start for part in parts])),
    )
