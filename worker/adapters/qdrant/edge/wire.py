"""Between the store's values and those of Qdrant Edge."""

from collections.abc import Iterator
from typing import Any, assert_never

import qdrant_edge as edge

from worker.adapters.qdrant.hits import RawHit
from worker.adapters.qdrant.payload import (
    DENSE,
    FRACTION_KEYS,
    KEYWORD_KEYS,
    NUMBER_KEYS,
    SORT_KEYS,
    TENANT,
    Above,
    AnyOf,
    AtLeast,
    AtMost,
    Condition,
    Equals,
    IsNotPoint,
    IsPoint,
    Within,
)
from worker.domain.kinds import SortKey
from worker.domain.memory import SparseVector


def index_operations() -> Iterator[edge.UpdateOperation]:
    """What makes an index on every key that a filter or an order may name; made again, they change nothing."""
    for key in KEYWORD_KEYS:
        tenant = key == TENANT
        yield edge.UpdateOperation.create_field_index(
            key, edge.KeywordIndexParams(is_tenant=tenant, enable_hnsw=tenant)
        )
    for key in NUMBER_KEYS:
        numbers = edge.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False)
        yield edge.UpdateOperation.create_field_index(key, numbers)
    for key in FRACTION_KEYS:
        yield edge.UpdateOperation.create_field_index(key, edge.FloatIndexParams(enable_hnsw=False))


def order(by: SortKey) -> edge.OrderBy:
    """The highest first."""
    return edge.OrderBy(SORT_KEYS[by], direction=edge.Direction.Desc)


def dense_params(dimension: int) -> edge.EdgeVectorParams:
    """Vectors that are compared by cosine; they are stored with unit length."""
    return edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)


def sparse_vector(vector: SparseVector) -> edge.SparseVector:
    """A sparse vector in the engine's terms."""
    return edge.SparseVector(list(vector.indices), list(vector.values))


def found_in(point: edge.ScoredPoint | edge.Record) -> RawHit:
    """A point that was found, or read by its id (then with score 0)."""
    vectors: Any = point.vector  # each look at an attribute converts its whole value
    vector = vectors.get(DENSE) if isinstance(vectors, dict) else None
    score = score_of(point) if isinstance(point, edge.ScoredPoint) else 0.0
    return RawHit(str(point.id), score, point.payload, None if vector is None else tuple(vector))


def score_of(point: edge.ScoredPoint) -> float:
    """What a point was ordered by: its score, or the value of an `order`."""
    value = point.order_value
    return point.score if value is None else float(value)


def compile_filter(wanted: tuple[Condition, ...]) -> edge.Filter:
    """All of `wanted` in the engine's terms."""
    return edge.Filter(must=[_compile(condition) for condition in wanted])


def _compile(condition: Condition) -> edge.FieldCondition | edge.HasIdCondition | edge.Filter:
    match condition:
        case Equals(key, value):
            return edge.FieldCondition(key=key, match=edge.MatchValue(value))
        case AnyOf(key, values):
            return edge.FieldCondition(key=key, match=edge.MatchAny(list(values)))
        case AtLeast(key, bound):
            return edge.FieldCondition(key=key, range=edge.RangeFloat(gte=float(bound)))
        case AtMost(key, bound):
            return edge.FieldCondition(key=key, range=edge.RangeFloat(lte=float(bound)))
        case Above(key, bound):
            return edge.FieldCondition(key=key, range=edge.RangeFloat(gt=float(bound)))
        case Within(key, low, high):
            return edge.FieldCondition(key=key, range=edge.RangeFloat(gte=float(low), lte=float(high)))
        case IsPoint(points):
            return edge.HasIdCondition(set(points))
        case IsNotPoint(points):
            return edge.Filter(must_not=[edge.HasIdCondition(set(points))])
        case _:
            assert_never(condition)
