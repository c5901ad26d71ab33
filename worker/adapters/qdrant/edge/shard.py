"""The embedded store on disk: blocking calls to Qdrant Edge, all from one thread.

A store's folder contains `points/` (the engine's files), the lock and the side file. The engine keeps a write-ahead
log: an update survives a crash of the process once the call returns, and a power failure after the next `flush`.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import qdrant_edge as edge
import structlog

from hooks.private_files import make_private_folder
from worker.adapters.qdrant.filters import Equals, conditions
from worker.adapters.qdrant.hits import (
    MOST_ASKED,
    Content,
    RawHit,
    Requests,
    SearchId,
    all_requests,
    best,
    contenders,
    contents_of,
    distinct_ids,
    first_limits,
    hits_per_query,
    listing_of,
    memories_by_id,
    page_of,
    states_by_id,
    tied,
    unscored,
)
from worker.adapters.qdrant.payload import (
    CONTENT,
    DENSE,
    MEMORY,
    SORT_KEYS,
    SPARSE,
    TENANT,
    page_start,
    payload_of,
    point_payload,
    searched,
)
from worker.domain.kinds import SortKey
from worker.domain.memory import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Memory,
    MemoryFilter,
    Replacement,
    StoredMemory,
    StoredState,
    Vector,
)
from worker.domain.pages import Listing, Page
from worker.domain.vectors import usable
from worker.ports.store_record import UNKNOWN_RECORD, Compatibility, StoreRecord, check_compatibility

from .contents import Contents
from .engine_errors import vendor_errors
from .files import SideFile, StoreLock
from .indexes import Indexes, simplified
from .mapped_files import release_pages
from .opening import ADVICE, POINTS, load, make, with_dense
from .space import check_space
from .wire import compile_filter, found_in, order, score_of, scored_in, sparse_vector

LOUD_LOSS = 0.01
"""Share of missing points above which opening a store logs an error instead of a warning."""

logger = structlog.get_logger()


class Shard:
    """An open folder of points. Methods block and raise `StoreError`."""

    def __init__(
        self,
        folder: Path,
        lock: StoreLock,
        points: edge.EdgeShard,
        indexes: Indexes,
        side: SideFile,
        compatibility: Compatibility,
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._points = points
        self._indexes = indexes
        self._side = side
        self.compatibility = compatibility
        self._contents = Contents()
        self.notes: list[str] = []

    @classmethod
    def open(cls, folder: Path, profile: EmbedderProfile | None, bm25_hash: str) -> Self:
        """Open or create the store in `folder`. Raise `StoreLocked`, `StoreDamaged` or `StoreFull`."""
        with vendor_errors(f"the memory store at {folder} cannot be reached"):
            make_private_folder(folder)
            check_space(folder)
            lock = StoreLock.acquire(folder)
        with ExitStack() as failed:
            failed.callback(lock.release)
            shard = cls._open_locked(folder, lock, profile, bm25_hash)
            failed.pop_all()
        return shard

    @classmethod
    def _open_locked(cls, folder: Path, lock: StoreLock, profile: EmbedderProfile | None, bm25_hash: str) -> Self:
        side = SideFile.read(folder)
        if not (folder / POINTS).exists():
            side = make(folder, side, StoreRecord.of(profile, bm25_hash))
        points, indexes = load(folder, None if side is None else side.keys)
        notes = []
        if side is None:
            notes = [f"the record of the store at {folder} is missing: cannot check the number of its memories"]
            side = SideFile(UNKNOWN_RECORD, 0)
        side = with_dense(folder, points, side, profile)
        shard = cls(folder, lock, points, indexes, side, check_compatibility(side.record, profile, bm25_hash))
        shard.notes = [*notes, *shard._missing()]
        if shard.compatibility.fault:
            logger.error("store_recipe_mismatch", path=str(folder), fault=shard.compatibility.fault)
        return shard

    def _missing(self) -> list[str]:
        """Check the number of points, since the engine has no checksums; return a note if any are missing."""
        found, expected = self.count_all(), self._side.points
        if found >= expected:
            return []
        lost = expected - found
        log = logger.error if lost > LOUD_LOSS * expected else logger.warning
        log("store_points_missing", path=str(self._folder), found=found, expected=expected)
        return [f"{lost} of {expected} memories are missing from the store at {self._folder}: {ADVICE}"]

    def search(self, tenant: str, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        with vendor_errors("the search failed"):
            found, content = self._found(all_requests(queries, partial(self._requests, tenant)))
        return hits_per_query(queries, found, content, self._usable)

    def _requests(self, tenant: str, place: int, query: HybridQuery) -> Requests:
        dense = self._usable(query.dense)
        common = {"filter": self._filter(tenant, query.where), "limit": query.limit}
        requests: Requests = {}
        if dense is not None:
            requests[place, DENSE] = {"query": edge.Query.Nearest(list(dense), using=DENSE), **common}
        if query.sparse is not None and query.sparse.indices:
            corpus = compile_filter((Equals(TENANT, tenant),))
            requests[place, SPARSE] = {
                "query": edge.Query.Nearest(sparse_vector(query.sparse), using=SPARSE),
                "params": edge.SearchParams(idf=edge.IdfParams(corpus=corpus)),
                **common,
            }
        return requests

    def ordered(self, tenant: str, where: MemoryFilter, by: SortKey, limit: int) -> list[Hit]:
        if SORT_KEYS[by] not in self._indexes.keys:
            return []  # without memories; every memory sets it
        request = {"filter": self._filter(tenant, where), "limit": limit, "query": order(by)}
        with vendor_errors("the memories could not be listed"):
            found, content = self._found({(0, DENSE): request})
        return unscored(found[0, DENSE], content)

    def _filter(self, tenant: str, where: MemoryFilter | None) -> edge.Filter:
        return compile_filter(simplified(conditions(tenant, where), self._indexes.keys))

    def _usable(self, vector: Vector | None) -> Vector | None:
        made_by = self._side.record.embedder
        return usable(vector, made_by.dimension) if self.compatibility.dense_usable and made_by is not None else None

    def _found(self, requests: Requests) -> tuple[dict[SearchId, list[RawHit]], dict[str, Content]]:
        """Return the best of each search and their content: reading that with the scores of all would take longer."""
        asked = first_limits(requests)
        answers = self._ask(requests, asked)
        again = tied(requests, {key: list(map(score_of, points)) for key, points in answers.items()}, asked)
        answers.update(self._ask(again, dict.fromkeys(again, MOST_ASKED)))
        chosen = {key: _best(points, requests[key]["limit"]) for key, points in answers.items()}
        return chosen, self._contents.of(distinct_ids(chosen.values()), self._read)

    def _read(self, ids: list[str]) -> Iterable[Content]:
        vectors = [DENSE] if self.compatibility.dense_usable else False
        return contents_of(map(found_in, self._points.retrieve(list(ids), list(CONTENT), vectors)))

    def _ask(self, requests: Requests, asked: Mapping[SearchId, int]) -> dict[SearchId, list[edge.ScoredPoint]]:
        """Return the points of each search, best first, without content."""
        batch = [edge.QueryRequest(**{**request, "limit": asked[key]}) for key, request in requests.items()]
        answers = self._points.query_batch(edge.QueryBatchRequest(batch)) if batch else []
        return dict(zip(requests, answers, strict=True))

    def get(self, ids: Sequence[str]) -> list[Memory]:
        """Return the memories of these point ids, in that order, without unknown ones."""
        with vendor_errors("the memories could not be read"):
            records = self._points.retrieve(list(ids), [MEMORY], False)
        return memories_by_id(map(found_in, records), ids)

    def states(self, ids: Mapping[str, str]) -> dict[str, StoredState]:
        """Return what is stored, by memory id; `ids` are memory ids by point id."""
        with vendor_errors("the memories could not be read"):
            records = self._points.retrieve(list(ids), [MEMORY], False)
        return states_by_id(map(found_in, records), ids, _revision)

    def check_room(self) -> None:
        """Raise `StoreFull` if there is no room for a change."""
        with vendor_errors("the disk of the memory store cannot be reached"):
            check_space(self._folder)

    def put(self, tenant: str, memories: dict[str, StoredMemory]) -> None:
        """Write memories by point id to the write-ahead log."""
        self._contents.forget(memories)
        with vendor_errors("the memories could not be stored"):
            payloads = {key: point_payload(tenant, stored) for key, stored in memories.items()}
            self._index(payloads.values())
            points = [self._point(key, stored, payloads[key]) for key, stored in memories.items()]
            self._points.update(edge.UpdateOperation.upsert_points(points))

    def replace(self, tenant: str, changes: dict[str, Replacement]) -> list[str]:
        """Make the changes whose expected revision is the stored one; return the ids of the other points.

        Nothing comes in between, since the store has one thread.
        """
        self._contents.forget(changes)
        with vendor_errors("the memories could not be stored"):
            held = self._points.retrieve(list(changes), [MEMORY], False)
            revisions = {str(record.id): _revision(found_in(record)) for record in held}
            due = {key: change for key, change in changes.items() if revisions.get(key) == change.expected}
            payloads = {key: _payload(tenant, change.new) for key, change in due.items()}
            self._index(payloads.values())
            points: list[edge.Point] = []
            for key, change in due.items():
                if isinstance(change.new, StoredMemory):
                    points.append(self._point(key, change.new, payloads[key]))
                else:
                    self._points.update(edge.UpdateOperation.set_payload([key], payloads[key]))
            if points:
                self._points.update(edge.UpdateOperation.upsert_points(points))
        return [key for key in changes if key not in due]

    def _index(self, payloads: Iterable[Mapping[str, Any]]) -> None:
        """Index the keys that are due before these payloads are stored, and first put them on record."""
        keys = self._indexes.due(payloads)
        if keys:
            self._record(replace(self._side, keys=self._indexes.keys | keys))
            self._indexes.add(keys)
            release_pages(self._folder)

    def _point(self, key: str, stored: StoredMemory, payload: dict[str, Any]) -> edge.Point:
        dense = self._usable(searched(stored))
        if dense is None and stored.dense is not None and self.compatibility.dense_usable:
            logger.warning("dense_vector_unusable", point_id=key, length=len(stored.dense))
        vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
        if stored.sparse.indices:
            vectors[SPARSE] = sparse_vector(stored.sparse)
        return edge.Point(key, vectors, payload)

    def delete(self, ids: Sequence[str]) -> int:
        """Delete points and return their number; first lower the number expected at the next opening."""
        self._contents.forget(ids)
        with vendor_errors("the memories could not be deleted"):
            existing: list[int | UUID | str] = [
                str(record.id) for record in self._points.retrieve(list(ids), False, False)
            ]
            if existing:
                self._expect(max(0, self._side.points - len(existing)))
                self._points.update(edge.UpdateOperation.delete_points(existing))
        return len(existing)

    def scroll(self, tenant: str, where: MemoryFilter, limit: int, cursor: str | None) -> Page:
        """Return a page of memories, sorted by point id."""
        wanted = self._filter(tenant, where)
        with vendor_errors("the memories could not be listed"):
            request = edge.ScrollRequest(offset=page_start(cursor), limit=limit, filter=wanted, with_payload=[MEMORY])
            records, following = self._points.scroll(request)
        return page_of(map(found_in, records), following)

    @property
    def record(self) -> StoreRecord:
        return self._side.record

    def listing(self, limit: int, cursor: str | None, vectors: bool) -> Listing:
        """Return a page of every tenant's memories, sorted by point id."""
        dense = [DENSE] if vectors and self._side.record.embedder is not None else False
        with vendor_errors("the memories could not be listed"):
            request = edge.ScrollRequest(
                offset=page_start(cursor), limit=limit, with_payload=[*CONTENT, TENANT], with_vector=dense
            )
            records, following = self._points.scroll(request)
        return listing_of(list(map(found_in, records)), following)

    def count(self, tenant: str, where: MemoryFilter | None) -> int:
        return self._count(self._filter(tenant, where))

    def count_all(self) -> int:
        return self._count(None)

    def without_dense(self) -> int:
        """Count memories without a dense vector; 0 if the store has no dense vectors at all."""
        if self._side.record.embedder is None:
            return 0
        return self._count(edge.Filter(must_not=[edge.HasVectorCondition(DENSE)]))

    def _count(self, where: edge.Filter | None) -> int:
        with vendor_errors("the memories could not be counted"):
            return int(self._points.count(edge.CountRequest(exact=True, filter=where)))

    def flush(self) -> None:
        """Write everything to disk, with the number of points.

        Points found missing at opening stay expected, so that every opening reports them.
        """
        with vendor_errors("the memory store could not be written to disk"):
            self._points.flush()
            self._expect(max(self._side.points, self.count_all()))

    def _expect(self, points: int) -> None:
        if points != self._side.points:
            self._record(replace(self._side, points=points))

    def _record(self, side: SideFile) -> None:
        side.write(self._folder)
        self._side = side

    def close(self) -> None:
        try:
            self.flush()
        finally:
            with vendor_errors("the memory store could not be closed"):
                self._points.close()
            self._lock.release()


def _revision(point: RawHit) -> str:
    """Return the stored text of the memory, which identifies its state."""
    text = (point.payload or {}).get(MEMORY)
    return text if isinstance(text, str) else ""


def _payload(tenant: str, new: Memory | StoredMemory) -> dict[str, Any]:
    return point_payload(tenant, new) if isinstance(new, StoredMemory) else payload_of(tenant, new)


def _best(points: Sequence[edge.ScoredPoint], limit: int) -> list[RawHit]:
    """Return the best points without reading the ids of the others, which would take longer than the search."""
    scores = list(map(score_of, points))
    return best(map(scored_in, points[: contenders(scores, limit)]), limit)
