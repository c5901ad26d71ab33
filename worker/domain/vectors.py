"""Vectors: their length, whether they are usable, and how near two are."""

import math
from operator import mul

from .memory import Vector


def norm(vector: Vector) -> float:
    """Euclidean length."""
    return math.sqrt(sum(map(mul, vector, vector)))


def usable(vector: Vector | None, dimension: int) -> Vector | None:
    """`vector` where it has a direction: the right length, finite and not all zeros; else `None`."""
    if vector is None or len(vector) != dimension:
        return None
    length = norm(vector)
    return vector if math.isfinite(length) and length > 0.0 else None


def _cosine(query: Vector | None, stored: Vector | None, length: float) -> float | None:
    """Stored vectors have unit length already."""
    if query is None or stored is None or len(query) != len(stored):
        return None
    product: float = sum(map(mul, query, stored))
    return max(-1.0, min(1.0, product / length))


def nearness(query: Vector, stored: Vector | None) -> float | None:
    """The cosine of a query and a stored vector, where they can be compared."""
    return _cosine(query, stored, norm(query))
