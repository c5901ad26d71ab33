"""Between the store's values and the models of Qdrant's client, and what its errors mean."""

import math
import re
from collections.abc import Iterator
from typing import Any, assert_never

import httpx
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

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


def connected(url: str, api_key: str | None, timeout: float) -> AsyncQdrantClient:
    """A client over REST; nothing is sent yet."""
    return AsyncQdrantClient(
        url=url,
        api_key=api_key,
        timeout=math.ceil(timeout),
        check_compatibility=False,
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=16, keepalive_expiry=5.0),
    )


def live_alias(name: str) -> str:
    """The alias that says which collection of a store is in use; without it, the one called as the store is."""
    return f"{name}-live"


async def aliased(client: AsyncQdrantClient, alias: str) -> str | None:
    """The collection behind an alias."""
    known = (await client.get_aliases()).aliases
    return next((one.collection_name for one in known if one.alias_name == alias), None)


def version_of(text: str) -> tuple[int, int]:
    """Major and minor version; (0, 0) where it cannot be told."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def dense_params(dimension: int) -> models.VectorParams:
    """Vectors that are compared by cosine; the server stores them with unit length."""
    return models.VectorParams(size=dimension, distance=models.Distance.COSINE)


def index_schemas() -> Iterator[tuple[str, Any]]:
    """Every key that a filter or an order may name, and how it is indexed."""
    for key in KEYWORD_KEYS:
        kind = models.KeywordIndexType.KEYWORD
        yield key, models.KeywordIndexParams(type=kind, is_tenant=True if key == TENANT else None)
    for key in NUMBER_KEYS:
        yield key, models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True)
    for key in FRACTION_KEYS:
        yield key, models.FloatIndexParams(type=models.FloatIndexType.FLOAT)


def order_by(by: SortKey) -> models.OrderByQuery:
    """The highest first."""
    return models.OrderByQuery(order_by=models.OrderBy(key=SORT_KEYS[by], direction=models.Direction.DESC))


def sparse_model(vector: SparseVector) -> models.SparseVector:
    """A sparse vector in the client's terms."""
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def found_in(point: models.ScoredPoint | models.Record) -> RawHit:
    """A point that was found, or read by its id (then with score 0)."""
    vector: Any = point.vector.get(DENSE) if isinstance(point.vector, dict) else None
    if isinstance(point, models.ScoredPoint):
        score = point.score if point.order_value is None else float(point.order_value)
    else:
        score = 0.0
    return RawHit(str(point.id), score, point.payload, None if vector is None else tuple(vector))


def compile_filter(wanted: tuple[Condition, ...]) -> models.Filter:
    """All of `wanted` in the client's terms."""
    return models.Filter(must=[_compile(condition) for condition in wanted])


def _compile(condition: Condition) -> models.FieldCondition | models.HasIdCondition | models.Filter:
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
        case Within(key, low, high):
            return models.FieldCondition(key=key, range=models.Range(gte=low, lte=high))
        case IsPoint(points):
            return models.HasIdCondition(has_id=list(points))
        case IsNotPoint(points):
            return models.Filter(must_not=[models.HasIdCondition(has_id=list(points))])
        case _:
            assert_never(condition)
