"""Between the store's values and the models of Qdrant's client, and what its errors mean."""

import re
from typing import Any, assert_never

import httpx
from qdrant_client import models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from worker.hits import Found
from worker.models import SparseVector
from worker.payload import DENSE, Above, AnyOf, AtLeast, AtMost, Condition, Equals

RETRIED = frozenset({429, 500, 502, 503, 504})


def transient(error: BaseException) -> bool:
    """Whether the same call may go well in a moment: no connection, a broken one, an overloaded server."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code in RETRIED
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse | httpx.TransportError)


def brief(error: Exception) -> str:
    """One line without the response's body, which may hold memory text."""
    if isinstance(error, UnexpectedResponse):
        return f"status {error.status_code} {error.reason_phrase}".strip()
    if isinstance(error, ResponseHandlingException):
        return f"{type(error.source).__name__}: {str(error.source)[:200]}"
    return f"{type(error).__name__}: {str(error)[:200]}"


def version_of(text: str) -> tuple[int, int]:
    """Major and minor version; (0, 0) where it cannot be told."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def dense_params(dimension: int) -> models.VectorParams:
    """Vectors that are compared by cosine; the server stores them with unit length."""
    return models.VectorParams(size=dimension, distance=models.Distance.COSINE)


def sparse_model(vector: SparseVector) -> models.SparseVector:
    """A sparse vector in the client's terms."""
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def found_in(point: models.ScoredPoint | models.Record) -> Found:
    """A point that was found, or read by its id (then with score 0)."""
    vector: Any = point.vector.get(DENSE) if isinstance(point.vector, dict) else None
    score = point.score if isinstance(point, models.ScoredPoint) else 0.0
    return Found(str(point.id), score, point.payload, None if vector is None else tuple(vector))


def compile_filter(wanted: tuple[Condition, ...]) -> models.Filter:
    """All of `wanted` in the client's terms."""
    return models.Filter(must=[_compile(condition) for condition in wanted])


def _compile(condition: Condition) -> models.FieldCondition:
    match condition:
        case Equals(key, value):
            return models.FieldCondition(key=key, match=models.MatchValue(value=value))
        case AnyOf(key, values):
            return models.FieldCondition(key=key, match=models.MatchAny(any=list(values)))
        case AtLeast(key, bound):
            return models.FieldCondition(key=key, range=models.Range(gte=bound))
        case AtMost(key, bound):
            return models.FieldCondition(key=key, range=models.Range(lte=bound))
        case Above(key, bound):
            return models.FieldCondition(key=key, range=models.Range(gt=bound))
        case _:
            assert_never(condition)
