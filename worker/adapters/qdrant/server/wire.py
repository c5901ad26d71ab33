"""Conversion between the store's values and Qdrant's client, and interpretation of its errors."""

import math
import re
from collections.abc import Iterator
from typing import Any

import httpx
from qdrant_client import AsyncQdrantClient, models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse

from worker.adapters.qdrant.filters import FilterCompiler
from worker.adapters.qdrant.hits import RawHit
from worker.adapters.qdrant.payload import DENSE, FRACTION_KEYS, KEYWORD_KEYS, NUMBER_KEYS, SORT_KEYS, TENANT
from worker.domain.kinds import SortKey
from worker.domain.memory import SparseVector
from worker.domain.vectors import read_vector

REVISIONS = "revisions"
"""Key of the ids of a point's last writes, newest first, separated by spaces."""

MOST_WRITES = 16
WRITE_ID = 12

RETRIED_STATUSES = frozenset({429, 500, 502, 503, 504})


SERVER_ERRORS = (ApiException, QdrantException, httpx.HTTPError, ValueError)
"""What the client raises if a server does not answer, refuses or answers with something else."""


def transient(error: BaseException) -> bool:
    """Return whether a retry may help: a failed connection or an overloaded server."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code in RETRIED_STATUSES
    return isinstance(error, ResponseHandlingException | ResourceExhaustedResponse | httpx.TransportError)


def brief(error: Exception) -> str:
    """Describe an error in one line, without the response body, which may contain memory text."""
    if isinstance(error, UnexpectedResponse):
        return f"status {error.status_code} {error.reason_phrase}".strip()
    if isinstance(error, ResponseHandlingException):
        return f"{type(error.source).__name__}: {str(error.source)[:200]}"
    return f"{type(error).__name__}: {str(error)[:200]}"


def connected(url: str, api_key: str | None, timeout: float) -> AsyncQdrantClient:
    """Return a REST client without sending anything yet."""
    return AsyncQdrantClient(
        url=url,
        api_key=api_key,
        timeout=math.ceil(timeout),
        check_compatibility=False,
        limits=httpx.Limits(max_connections=32, max_keepalive_connections=16, keepalive_expiry=5.0),
    )


def live_alias(name: str) -> str:
    """Return the alias of a store's live collection; without the alias, the collection named like the store is live."""
    return f"{name}-live"


def create_alias(alias: str, collection: str) -> models.CreateAliasOperation:
    return models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=collection, alias_name=alias))


def delete_alias(alias: str) -> models.DeleteAliasOperation:
    return models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias))


async def aliased(client: AsyncQdrantClient, alias: str) -> str | None:
    """Return the collection of an alias, if it exists."""
    known = (await client.get_aliases()).aliases
    return next((one.collection_name for one in known if one.alias_name == alias), None)


def version_of(text: str) -> tuple[int, int]:
    """Parse the major and minor version; (0, 0) if unknown."""
    match = re.match(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def dense_params(dimension: int) -> models.VectorParams:
    return models.VectorParams(size=dimension, distance=models.Distance.COSINE)


def index_schemas() -> Iterator[tuple[str, Any]]:
    """Yield every key to filter or sort by, with its index; first those without which a server cannot sort."""
    for key in FRACTION_KEYS:
        yield key, models.FloatIndexParams(type=models.FloatIndexType.FLOAT)
    for key in NUMBER_KEYS:
        yield key, models.IntegerIndexParams(type=models.IntegerIndexType.INTEGER, lookup=False, range=True)
    for key in KEYWORD_KEYS:
        kind = models.KeywordIndexType.KEYWORD
        yield key, models.KeywordIndexParams(type=kind, is_tenant=True if key == TENANT else None)


def order_by(by: SortKey) -> models.OrderByQuery:
    return models.OrderByQuery(order_by=models.OrderBy(key=SORT_KEYS[by], direction=models.Direction.DESC))


def sparse_model(vector: SparseVector) -> models.SparseVector:
    return models.SparseVector(indices=list(vector.indices), values=list(vector.values))


def found_in(point: models.ScoredPoint | models.Record) -> RawHit:
    """Convert a point; one read by id has score 0."""
    vector: Any = point.vector.get(DENSE) if isinstance(point.vector, dict) else None
    if isinstance(point, models.ScoredPoint):
        score = point.score if point.order_value is None else float(point.order_value)
    else:
        score = 0.0
    return RawHit(str(point.id), score, point.payload, None if vector is None else read_vector(vector))


def revisions_of(point: RawHit) -> str:
    """Return the last writes of a point, newest first; "" for one written by an unconditional write."""
    return str((point.payload or {}).get(REVISIONS) or "")


def next_revisions(expected: str | None, write: str) -> str:
    """Return the last writes of a point after `write`."""
    return " ".join([write, *(expected or "").split()][:MOST_WRITES])


def unchanged_point(key: str, expected: str | None) -> models.Filter:
    """Return a filter for the point `key` with the revision `expected`."""
    if expected:
        same: Any = models.FieldCondition(key=REVISIONS, match=models.MatchValue(value=expected))
    else:
        same = models.IsEmptyCondition(is_empty=models.PayloadField(key=REVISIONS))
    return models.Filter(must=[models.HasIdCondition(has_id=[key]), same])


compile_filter: FilterCompiler[models.Filter] = FilterCompiler(
    all_of=models.Filter,
    field=models.FieldCondition,
    match_value=lambda value: models.MatchValue(value=value),
    match_any=lambda values: models.MatchAny(any=values),
    within=models.Range,
    has_id=lambda points: models.HasIdCondition(has_id=list(points)),
)
