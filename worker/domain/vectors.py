"""Vector arithmetic."""

import math
from operator import mul

from .memory import Vector


def norm(vector: Vector) -> float:
    """Return the Euclidean length."""
    return math.sqrt(sum(map(mul, vector, vector)))


def usable(vector: Vector | None, dimension: int) -> Vector | None:
    """Return `vector` if it has `dimension` values, all finite and not all zero, else `None`."""
    if vector is None or len(vector) != dimension:
        return None
    length = norm(vector)
    return vector if math.isfinite(length) and length > 0.0 else None


def cosine_similarity(query: Vector | None, stored: Vector | None, length: float | None = None) -> float | None:
    """Return the cosine of a query of the given length and a stored unit vector, `None` if they do not compare."""
    if query is None or stored is None or len(query) != len(stored):
        return None
    product: float = sum(map(mul, query, stored))
    return max(-1.0, min(1.0, product / (norm(query) if length is None else length)))
