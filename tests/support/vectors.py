"""Vectors as stores return them."""

import numpy as np

from worker.domain.vectors import StoredVector


def row(*values: float) -> StoredVector:
    return np.array(values, dtype=np.float32)
