"""Boosted oblivious trees: a level of a tree asks one question of all rows, so that a leaf is a binary number. Pure.

The form of CatBoost (Prokhorenkova et al. 2018): small, fast without compiled code, and hard to overfit with.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Trees:
    """A sum of trees, in the logarithm of odds.

    `columns` and `limits` have the shape (trees, depth), `leaves` (trees, 2 ** depth); question `d` of a tree adds
    `2 ** d` to the number of the leaf where the value of its column is greater than its limit.
    """

    columns: Integers
    limits: Floats
    leaves: Floats
    start: float

    def __call__(self, rows: Floats) -> Floats:
        """The score of each row of shape (rows, columns)."""
        number, depth = self.columns.shape
        if number == 0:
            return np.full(len(rows), self.start, dtype=np.float32)
        leaf = np.zeros((len(rows), number), dtype=np.int32)
        for level in range(depth):
            leaf += (rows[:, self.columns[:, level]] > self.limits[:, level]) << level
        found: Floats = self.leaves[np.arange(number), leaf].sum(axis=1, dtype=np.float64).astype(np.float32)
        return found + np.float32(self.start)

    def arrays(self, name: str) -> dict[str, npt.NDArray[np.generic]]:
        """What `from_arrays` reads, under names that begin with `name`."""
        return {
            f"{name}_columns": self.columns,
            f"{name}_limits": self.limits,
            f"{name}_leaves": self.leaves,
            f"{name}_start": np.array([self.start], dtype=np.float32),
        }


def from_arrays(arrays: Mapping[str, npt.NDArray[np.generic]], name: str, columns: int) -> Trees:
    """Trees over `columns` columns. Raises `ValueError` or `KeyError` for arrays that are none."""
    asked, limits, leaves = (arrays[f"{name}_{part}"] for part in ("columns", "limits", "leaves"))
    number, depth = asked.shape
    if limits.shape != (number, depth) or leaves.shape != (number, 2**depth):
        raise ValueError(f"{name}: the shapes of the trees do not fit: {asked.shape}, {limits.shape}, {leaves.shape}")
    if number and not (int(asked.min()) >= 0 and int(asked.max()) < columns):
        raise ValueError(f"{name}: the trees ask for columns that there are not")
    if not (np.isfinite(limits).all() and np.isfinite(leaves).all()):
        raise ValueError(f"{name}: the trees hold numbers that are none")
    start = float(arrays[f"{name}_start"][0])
    return Trees(asked.astype(np.int32), limits.astype(np.float32), leaves.astype(np.float32), start)


def together(parts: Sequence[Trees]) -> Trees:
    """The mean of several sums of trees of the same depth, as one."""
    share = np.float32(1.0 / len(parts))
    return Trees(
        np.concatenate([part.columns for part in parts]),
        np.concatenate([part.limits for part in parts]),
        np.concatenate([part.leaves for part in parts]) * share,
        float(np.mean([part.start for part in parts])),
    )
