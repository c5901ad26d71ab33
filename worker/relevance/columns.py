"""Columns of features: one value per candidate. Pure."""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[np.float32]


def column(values: Iterable[float]) -> Column:
    return np.array(list(values), dtype=np.float32)


def same(value: float, number: int) -> Column:
    """Repeat the value of a feature that all candidates share."""
    return np.full(number, value, dtype=np.float32)
