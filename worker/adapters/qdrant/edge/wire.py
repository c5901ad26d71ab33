"""Conversion between the store's values and Qdrant Edge's."""

from typing import Any

import qdrant_edge as edge

from worker.adapters.qdrant.filters import FilterCompiler
from worker.adapters.qdrant.hits import RawHit
from worker.adapters.qdrant.payload import DENSE, SORT_KEYS
from worker.domain.kinds import SortKey
from worker.domain.memory import SparseVector
from worker.domain.vectors import read_vector


def order(by: SortKey) -> edge.OrderBy:
    return edge.OrderBy(SORT_KEYS[by], direction=edge.Direction.Desc)


def dense_params(dimension: int) -> edge.EdgeVectorParams:
    return edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)


def sparse_vector(vector: SparseVector) -> edge.SparseVector:
    return edge.SparseVector(list(vector.indices), list(vector.values))


def found_in(point: edge.ScoredPoint | edge.Record) -> RawHit:
    """Convert a point; one read by id has score 0."""
    vectors: Any = point.vector  # every access converts the whole value
    vector = vectors.get(DENSE) if isinstance(vectors, dict) else None
    score = score_of(point) if isinstance(point, edge.ScoredPoint) else 0.0
    return RawHit(str(point.id), score, point.payload, None if vector is None else read_vector(vector))


def scored_in(point: edge.ScoredPoint) -> RawHit:
    """Convert a point that was found without its content."""
    return RawHit(str(point.id), score_of(point), None, None)


def score_of(point: edge.ScoredPoint) -> float:
    """Return the sort value: the score, or the value of an `order`."""
    value = point.order_value
    return point.score if value is None else float(value)


compile_filter: FilterCompiler[edge.Filter] = FilterCompiler(
    all_of=edge.Filter,
    field=edge.FieldCondition,
    match_value=edge.MatchValue,
    match_any=edge.MatchAny,
    within=edge.RangeFloat,
    has_id=lambda points: edge.HasIdCondition(set(points)),
)
