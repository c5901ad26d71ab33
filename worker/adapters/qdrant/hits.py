"""From the points that the legs of a search found to hits: exact cut of ties, merging, missing cosines."""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import neg
from typing import Any

import structlog

from worker.domain.errors import StoreError
from worker.domain.memory import Hit, Listed, Memory, Vector
from worker.domain.vectors import _cosine, norm

from .payload import TENANT, memory_of

SPARE = 12
"""Points asked for beyond the limit, so that equal scores at the cut can be put in order."""

MOST_ASKED = 512
"""Points asked for, without their content, when equal scores run on beyond the spare ones; more memories than this
with one and the same score are cut in the engine's order."""

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RawHit:
    """A point that a leg found, with the leg's raw score."""

    point_id: str
    score: float
    payload: Mapping[str, Any] | None
    vector: Vector | None


def check_askable(requests: Collection[object]) -> None:
    """Raise `StoreError` when no query of a search has anything to be asked by."""
    if not requests:
        raise StoreError("neither leg of the search can be used: there are no terms and no usable dense vector")


def settled(scores: Sequence[float], limit: int, asked: int) -> bool:
    """Whether the best `limit` of what a leg found, best first, are certain: equal scores at the cut do not go on
    beyond what was asked for."""
    if len(scores) < asked or asked >= MOST_ASKED or limit == 0:
        return True
    return scores[limit - 1] > scores[-1]


def contenders(scores: Sequence[float], limit: int) -> int:
    """How many from the front of `scores`, best first, may be among the best `limit`: those, and ties with the last."""
    if limit == 0 or len(scores) <= limit:
        return min(limit, len(scores))
    return bisect_right(scores, -scores[limit - 1], lo=limit, key=neg)


def best(found: Iterable[RawHit], limit: int) -> list[RawHit]:
    """The best `limit` points, equal scores by id."""
    return sorted(found, key=lambda point: (-point.score, point.point_id))[:limit]


def missing(chosen: Iterable[RawHit], known: Iterable[RawHit]) -> list[str]:
    """Ids of chosen points whose content is not known yet, each once."""
    have = {point.point_id for point in known}
    return list(dict.fromkeys(point.point_id for point in chosen if point.point_id not in have))


def filled(chosen: Iterable[RawHit], content: Mapping[str, RawHit]) -> list[RawHit]:
    """The chosen points with what `content` has by their ids, and their own scores."""
    found = ((point, content.get(point.point_id)) for point in chosen)
    return [RawHit(point.point_id, point.score, known.payload, known.vector) for point, known in found if known]


@dataclass(frozen=True, slots=True)
class SearchResults:
    """The legs of one search: its dense query where that can be used, and what each leg found."""

    query: Vector | None
    dense: list[RawHit]
    sparse: list[RawHit]

    def hits(self) -> list[Hit]:
        """Both legs as hits; a keyword score of nothing is none."""
        return merge(self.query, self.dense, [point for point in self.sparse if point.score > 0.0])


def merge(query: Vector | None, dense: list[RawHit], sparse: list[RawHit]) -> list[Hit]:
    """Hits of both legs: those of the dense leg best first, then those that only the sparse leg found, best first.

    Where `query` is given, hits of the sparse leg get their cosine from the stored vector.
    """
    keywords = {point.point_id: point.score for point in sparse}
    seen = {point.point_id for point in dense}
    length = 0.0 if query is None else norm(query)
    hits = [_hit(point, point.score, keywords.get(point.point_id)) for point in dense]
    hits += [
        _hit(point, _cosine(query, point.vector, length), point.score) for point in sparse if point.point_id not in seen
    ]
    return [hit for hit in hits if hit is not None]


def _hit(point: RawHit, cosine: float | None, keyword: float | None) -> Hit | None:
    memory = readable(point.point_id, point.payload)
    return None if memory is None else Hit(memory, cosine, keyword, point.vector)


def unscored(point: RawHit) -> Hit | None:
    """A point that no query found."""
    memory = readable(point.point_id, point.payload)
    return None if memory is None else Hit(memory, None, None, point.vector)


def readable(point_id: str, payload: Mapping[str, Any] | None) -> Memory | None:
    """The memory of a point; one that cannot be read is logged and left out, so that the others still serve."""
    try:
        return memory_of(payload)
    except StoreError as error:
        logger.error("memory_unreadable", point_id=point_id, fault=str(error))
        return None


def listed(point_id: str, payload: Mapping[str, Any] | None, dense: Vector | None) -> Listed | None:
    """A point as an entry of a listing; one that cannot be read is logged and left out."""
    memory = readable(point_id, payload)
    tenant = (payload or {}).get(TENANT)
    return Listed(tenant, memory, dense) if memory is not None and isinstance(tenant, str) else None
