"""Conversion of found points to hits: exact limits despite ties, merged searches, missing cosines."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import neg
from typing import Any, TypeAlias

import structlog

from worker.domain.cues import CueVectors
from worker.domain.errors import StoreError
from worker.domain.memory import Hit, HybridQuery, Memory, StoredState, Vector
from worker.domain.pages import Listed, Listing, Page
from worker.domain.vectors import StoredVector, cosine_similarity, direction, exact

from .payload import DENSE, SPARSE, TENANT, cue_rows, own_vector, row_in
from .rows import Row

SPARE = 12
"""Extra points to request, so that equal scores at the limit can be sorted by id."""

MOST_ASKED = 512
"""Points to request, without content, if ties go beyond `SPARE`; the engine decides between more ties than that."""

SearchId: TypeAlias = tuple[int, str]
"""A query's position in its batch, and `DENSE` or `SPARSE`."""

Requests: TypeAlias = dict[SearchId, dict[str, Any]]
"""Arguments of an engine's query, per search."""

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RawHit:
    """A point found by a search, with its raw score."""

    point_id: str
    score: float
    payload: Mapping[str, Any] | None
    vector: StoredVector | None = field(compare=False)


@dataclass(frozen=True, slots=True)
class Content:
    """What was read of a point: its memory, the vectors of its text and to search by, and its cues' packed vectors."""

    point_id: str
    memory: Memory
    vector: StoredVector | None = field(compare=False)
    searched_by: StoredVector | None = field(compare=False)
    cue_rows: bytes

    def hit(self, cosine: float | None, keyword: float | None) -> Hit:
        return Hit(self.memory, cosine, keyword, self.vector, self.cue_rows)


def contents_of(points: Iterable[RawHit]) -> Iterator[Content]:
    """Yield the content of each point that can be read."""
    for point in points:
        if (memory := _memory(point)) is not None:
            rows = cue_rows(point.payload)
            yield Content(point.point_id, memory, own_vector(rows, point.vector), point.vector, rows)


def all_requests(queries: Sequence[HybridQuery], requests_of: Callable[[int, HybridQuery], Requests]) -> Requests:
    """Return the requests of all queries. Raise `StoreError` if there are none."""
    requests: Requests = {}
    for place, query in enumerate(queries):
        requests |= requests_of(place, query)
    if not requests:
        raise StoreError("nothing to search by: the query has no terms and no usable dense vector")
    return requests


def first_limits(requests: Requests) -> dict[SearchId, int]:
    """Return how many points to request for each search."""
    return {key: min(MOST_ASKED, request["limit"] + SPARE) for key, request in requests.items()}


def tied(
    requests: Requests, scores: Mapping[SearchId, Sequence[float]], asked: Mapping[SearchId, int]
) -> dict[SearchId, dict[str, Any]]:
    """Return the requests whose results may be cut off within a tie."""
    return {key: requests[key] for key in scores if not settled(scores[key], requests[key]["limit"], asked[key])}


def settled(scores: Sequence[float], limit: int, asked: int) -> bool:
    """Return whether the best `limit` scores, best first, are certain: no tie at the limit reaches the end."""
    if len(scores) < asked or asked >= MOST_ASKED or limit == 0:
        return True
    return scores[limit - 1] > scores[-1]


def contenders(scores: Sequence[float], limit: int) -> int:
    """Return how many of `scores`, best first, belong to the best `limit` or tie with the last of them."""
    if limit == 0 or len(scores) <= limit:
        return min(limit, len(scores))
    return bisect_right(scores, -scores[limit - 1], lo=limit, key=neg)


def best(found: Iterable[RawHit], limit: int) -> list[RawHit]:
    """Return the best `limit` points, ties by id."""
    return sorted(found, key=lambda point: (-point.score, point.point_id))[:limit]


def distinct_ids(found: Iterable[Iterable[RawHit]]) -> list[str]:
    """Return the ids of all points found, each once."""
    return list(dict.fromkeys(point.point_id for points in found for point in points))


def hits_per_query(
    queries: Sequence[HybridQuery],
    found: Mapping[SearchId, list[RawHit]],
    content: Mapping[str, Content],
    usable: Callable[[Vector | None], Vector | None],
) -> list[list[Hit]]:
    """Merge the results of each query's searches; a keyword score of 0 is no match."""
    return [
        merge(
            usable(query.dense),
            found.get((place, DENSE), []),
            [point for point in found.get((place, SPARSE), []) if point.score > 0.0],
            content,
        )
        for place, query in enumerate(queries)
    ]


def merge(query: Vector | None, dense: list[RawHit], sparse: list[RawHit], content: Mapping[str, Content]) -> list[Hit]:
    """Return the hits of the dense search, then those that only the keyword search found, each best first.

    With `query`, hits of the keyword search get their cosine from the stored vector. Points without content are left
    out.
    """
    keywords = {point.point_id: point.score for point in sparse}
    hits = []
    for point in dense:
        keyword = keywords.pop(point.point_id, None)
        if (known := content.get(point.point_id)) is not None:
            hits.append(known.hit(point.score, keyword))
    asked = None if query is None else direction(query)
    for key, score in keywords.items():
        if (known := content.get(key)) is not None:
            hits.append(known.hit(cosine_similarity(asked, known.searched_by), score))
    return hits


def unscored(points: Iterable[RawHit], content: Mapping[str, Content]) -> list[Hit]:
    """Return hits without scores, for results in a fixed order."""
    return [content[point.point_id].hit(None, None) for point in points if point.point_id in content]


def memories_by_id(points: Iterable[RawHit], ids: Sequence[str]) -> list[Memory]:
    """Return the memories in the order of `ids`, leaving out missing ones."""
    found = {point.point_id: _memory(point) for point in points}
    return [memory for memory in map(found.get, ids) if memory is not None]


def states_by_id(
    points: Iterable[RawHit], ids: Mapping[str, str], revision: Callable[[RawHit], str]
) -> dict[str, StoredState]:
    """Return the stored states by memory id; `ids` are memory ids by point id."""
    return {ids[point.point_id]: StoredState(_memory(point), revision(point)) for point in points}


def page_of(points: Iterable[RawHit], following: object) -> Page:
    """Return a page, given the engine's offset of the next one."""
    memories = (memory for memory in map(_memory, points) if memory is not None)
    return Page(tuple(memories), None if following is None else str(following))


def listing_of(points: Sequence[RawHit], following: object) -> Listing:
    """Return a page of a whole store, given the engine's offset of the next one."""
    rows = [(point, row) for point in points if (row := _row(point)) is not None]
    kept = tuple(entry for point, row in rows if (entry := _listed(point, row.memory)) is not None)
    damaged = sum(bool(row.damaged) for _, row in rows)
    return Listing(kept, None if following is None else str(following), len(points) - len(kept), damaged)


def _listed(point: RawHit, memory: Memory) -> Listed | None:
    tenant = (point.payload or {}).get(TENANT)
    if not isinstance(tenant, str):
        return None
    rows, searched_by = cue_rows(point.payload), exact(point.vector)
    cues = CueVectors(searched_by, rows) if rows and memory.cues and searched_by is not None else None
    return Listed(tenant, memory, exact(own_vector(rows, point.vector)), cues)


def _memory(point: RawHit) -> Memory | None:
    row = _row(point)
    return None if row is None else row.memory


def _row(point: RawHit) -> Row | None:
    """Return the point's memory; log and leave out one that cannot be read, so that the others are served."""
    try:
        return row_in(point.payload)
    except StoreError as error:
        logger.error("memory_unreadable", point_id=point.point_id, fault=str(error))
        return None
