"""The embedded store as it lies on disk: blocking calls of Qdrant Edge, all to be made from one thread.

A store's folder holds `points/` (the engine's own files), the lock and the side file. The engine keeps a write-ahead
log, so that an update survives the death of the process as soon as the call returns; `flush` makes it survive a
loss of power and shortens the log.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self
from uuid import UUID

import qdrant_edge as edge
import structlog

from worker.adapters.qdrant.hits import (
    MOST_ASKED,
    SPARE,
    RawHit,
    SearchResults,
    best,
    check_askable,
    contenders,
    filled,
    listed,
    missing,
    readable,
    settled,
    unscored,
)
from worker.adapters.qdrant.payload import (
    DENSE,
    MEMORY,
    SPARSE,
    TENANT,
    UNKNOWN_EMBEDDER,
    Equals,
    conditions,
    page_start,
    payload_of,
)
from worker.domain.errors import StoreDamaged, StoreError
from worker.domain.kinds import SortKey
from worker.domain.memory import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Listing,
    Memory,
    MemoryFilter,
    Page,
    StoredMemory,
    Vector,
)
from worker.domain.vectors import usable
from worker.ports.store_record import Fitness, StoreRecord, embedder_record, fitness

from .files import SideFile, StoreLock
from .wire import compile_filter, dense_params, found_in, index_operations, order, score_of, sparse_vector

POINTS = "points"
ADVICE = (
    "put back a copy of the folder that was made while the store was closed; or move the folder away and put a backup "
    "back with `meeseeks store restore`, or import an export of the memories"
)
LOUD_LOSS = 0.01
"""Share of missing points from which opening a store is an error in the log and not only a note of its health."""

_Key = tuple[int, str]
"""The place of a query among those of a batch, and its leg."""

_Requests = dict[_Key, dict[str, Any]]

logger = structlog.get_logger()


@contextmanager
def vendor_errors(doing: str) -> Iterator[None]:
    """Raise what the engine or the disk raised as `StoreError`, and nothing else.

    The engine raises bare `Exception`, `ValueError` and `OverflowError`; on damaged files its Rust code may panic,
    which arrives as pyo3's `PanicException`: a `BaseException` that no module exports, known by its name alone.
    """
    try:
        yield
    except BaseException as error:  # a panic has no type that can be named here; all that is not the engine's goes on
        vendors = type(error) in (Exception, ValueError, OverflowError) or isinstance(error, OSError)
        if not vendors and type(error).__name__ != "PanicException":
            raise
        raise StoreError(f"{doing}: {error}") from error


class Shard:
    """An open folder of points. Every method blocks and raises `StoreError`."""

    def __init__(self, folder: Path, lock: StoreLock, points: edge.EdgeShard, side: SideFile, fit: Fitness) -> None:
        self._folder = folder
        self._lock = lock
        self._points = points
        self._side = side
        self.fitness = fit
        self.notes: tuple[str, ...] = fit.notes

    @classmethod
    def open(cls, folder: Path, profile: EmbedderProfile | None, bm25_hash: str) -> Self:
        """Open the store in `folder`, or make it there.

        Raises `StoreLocked` when another process owns it, `StoreDamaged` when it cannot be opened as it is.
        """
        with vendor_errors(f"the memory store at {folder} cannot be reached"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = StoreLock.acquire(folder)
        try:
            return cls._open_locked(folder, lock, profile, bm25_hash)
        except StoreError:
            lock.release()
            raise

    @classmethod
    def _open_locked(cls, folder: Path, lock: StoreLock, profile: EmbedderProfile | None, bm25_hash: str) -> Self:
        side = SideFile.read(folder)
        if not (folder / POINTS).exists():
            side = _make(folder, side, StoreRecord.of(profile, bm25_hash))
        points = _load(folder)
        notes: tuple[str, ...] = ()
        if side is None:
            notes = (f"the record of the store at {folder} is lost: its number of memories could not be checked",)
            side = SideFile(StoreRecord(UNKNOWN_EMBEDDER, ""), 0)
        side = _with_dense(folder, points, side, profile)
        shard = cls(folder, lock, points, side, fitness(side.record, profile, bm25_hash))
        shard.notes = (*shard.notes, *notes, *shard._missing())
        if shard.fitness.fault:
            logger.error("store_recipe_mismatch", path=str(folder), fault=shard.fitness.fault)
        return shard

    def _missing(self) -> tuple[str, ...]:
        """Compare the number of points with the least that there must be; the engine itself checks no sums."""
        found, expected = self.count_all(), self._side.points
        if found >= expected:
            return ()
        lost = expected - found
        log = logger.error if lost > LOUD_LOSS * expected else logger.warning
        log("store_points_missing", path=str(self._folder), found=found, expected=expected)
        return (f"{lost} of {expected} memories are missing from the store at {self._folder}: {ADVICE}",)

    def search(self, tenant: str, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        """Run all searches of all queries in one batch; `worker.adapters.qdrant.hits.merge` says what comes back."""
        with vendor_errors("the search failed"):
            requests: _Requests = {}
            for place, query in enumerate(queries):
                requests |= self._requests(tenant, place, query)
            check_askable(requests)
            found = self._found(requests)
        legs = (
            SearchResults(self._usable(query.dense), found.get((place, DENSE), []), found.get((place, SPARSE), []))
            for place, query in enumerate(queries)
        )
        return [search_kind.hits() for search_kind in legs]

    def _requests(self, tenant: str, place: int, query: HybridQuery) -> _Requests:
        """The legs of the query at `place`; none for a query without terms and without a usable vector."""
        dense = self._usable(query.dense)
        common = {"filter": compile_filter(conditions(tenant, query.where)), "limit": query.limit}
        requests: _Requests = {}
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
        """The first memories in an order; those of equal rank by id, as far as they are among the spare ones."""
        request = {"filter": compile_filter(conditions(tenant, where)), "limit": limit, "query": order(by)}
        with vendor_errors("the memories could not be listed"):
            found = self._found({(0, DENSE): request})[0, DENSE]
        hits = map(unscored, found)
        return [hit for hit in hits if hit is not None]

    def _usable(self, vector: Vector | None) -> Vector | None:
        made_by = self._side.record.embedder
        return usable(vector, made_by.dimension) if self.fitness.dense_usable and made_by is not None else None

    def _found(self, requests: _Requests) -> dict[_Key, list[RawHit]]:
        """The best of each leg; content is read for those alone, which is cheaper here than with the scores."""
        asked = {key: min(MOST_ASKED, request["limit"] + SPARE) for key, request in requests.items()}
        answers = self._ask(requests, asked)
        tied = {
            key: requests[key]
            for key, points in answers.items()
            if not settled(list(map(score_of, points)), requests[key]["limit"], asked[key])
        }
        answers.update(self._ask(tied, dict.fromkeys(tied, MOST_ASKED)))
        chosen = {key: _best(points, requests[key]["limit"]) for key, points in answers.items()}
        vectors = [DENSE] if self.fitness.dense_usable else False
        ids = missing(chain.from_iterable(chosen.values()), ())
        read = map(found_in, self._points.retrieve(list(ids), [MEMORY], vectors)) if ids else ()
        content = {point.point_id: point for point in read}
        return {key: filled(found, content) for key, found in chosen.items()}

    def _ask(self, requests: _Requests, asked: Mapping[_Key, int]) -> dict[_Key, list[edge.ScoredPoint]]:
        """What each leg found, best first, without its content."""
        batch = [edge.QueryRequest(**{**request, "limit": asked[key]}) for key, request in requests.items()]
        answers = self._points.query_batch(edge.QueryBatchRequest(batch)) if batch else []
        return dict(zip(requests, answers, strict=True))

    def get(self, ids: Sequence[str]) -> list[Memory]:
        """The memories of these point ids, in the order asked; unknown ids are left out."""
        with vendor_errors("the memories could not be read"):
            records = self._points.retrieve(list(ids), [MEMORY], False)
        found = {str(record.id): readable(str(record.id), record.payload) for record in records}
        return [memory for memory in map(found.get, ids) if memory is not None]

    def put(self, tenant: str, memories: dict[str, StoredMemory]) -> None:
        """Store memories by point id; when this returns they are in the write-ahead log."""
        with vendor_errors("the memories could not be stored"):
            points = [self._point(tenant, key, stored) for key, stored in memories.items()]
            self._points.update(edge.UpdateOperation.upsert_points(points))

    def amend(self, tenant: str, memories: dict[str, Memory]) -> None:
        """Replace the payload of points that are there; their vectors stay."""
        with vendor_errors("the memories could not be amended"):
            existing = {str(record.id) for record in self._points.retrieve(list(memories), False, False)}
            for key, memory in memories.items():
                if key in existing:
                    self._points.update(edge.UpdateOperation.overwrite_payload([key], payload_of(tenant, memory)))

    def _point(self, tenant: str, key: str, stored: StoredMemory) -> edge.Point:
        dense = self._usable(stored.dense)
        if dense is None and stored.dense is not None and self.fitness.dense_usable:
            logger.warning("dense_vector_unusable", point_id=key, length=len(stored.dense))
        vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
        if stored.sparse.indices:
            vectors[SPARSE] = sparse_vector(stored.sparse)
        return edge.Point(key, vectors, payload_of(tenant, stored.memory))

    def delete(self, ids: Sequence[str]) -> int:
        """Delete points; how many of them there were. What must be there at the next opening is lowered first."""
        with vendor_errors("the memories could not be deleted"):
            existing: list[int | UUID | str] = [
                str(record.id) for record in self._points.retrieve(list(ids), False, False)
            ]
            if existing:
                self._expect(max(0, self._side.points - len(existing)))
                self._points.update(edge.UpdateOperation.delete_points(existing))
        return len(existing)

    def scroll(self, tenant: str, where: MemoryFilter, limit: int, cursor: str | None) -> Page:
        """A page of memories in the order of their point ids."""
        wanted = compile_filter(conditions(tenant, where))
        with vendor_errors("the memories could not be listed"):
            request = edge.ScrollRequest(offset=page_start(cursor), limit=limit, filter=wanted, with_payload=[MEMORY])
            records, following = self._points.scroll(request)
        memories = [readable(str(record.id), record.payload) for record in records]
        return Page(
            tuple(memory for memory in memories if memory is not None), None if following is None else str(following)
        )

    @property
    def record(self) -> StoreRecord:
        """The recipes that the stored vectors were made by."""
        return self._side.record

    def listing(self, limit: int, cursor: str | None, vectors: bool) -> Listing:
        """A page of the memories of every tenant, in the order of their point ids."""
        dense = [DENSE] if vectors and self._side.record.embedder is not None else False
        with vendor_errors("the memories could not be listed"):
            request = edge.ScrollRequest(
                offset=page_start(cursor), limit=limit, with_payload=[MEMORY, TENANT], with_vector=dense
            )
            records, following = self._points.scroll(request)
        entries = [listed(found.point_id, found.payload, found.vector) for found in map(found_in, records)]
        kept = tuple(entry for entry in entries if entry is not None)
        return Listing(kept, None if following is None else str(following), len(entries) - len(kept))

    def count(self, tenant: str, where: MemoryFilter | None) -> int:
        return self._count(compile_filter(conditions(tenant, where)))

    def count_all(self) -> int:
        return self._count(None)

    def without_dense(self) -> int:
        """How many memories have no dense vector, where the store has dense vectors at all."""
        if self._side.record.embedder is None:
            return 0
        return self._count(edge.Filter(must_not=[edge.HasVectorCondition(DENSE)]))

    def _count(self, where: edge.Filter | None) -> int:
        with vendor_errors("the memories could not be counted"):
            return int(self._points.count(edge.CountRequest(exact=True, filter=where)))

    def flush(self) -> None:
        """Make everything durable, and remember how many points that are.

        Points that were found missing stay expected, so that every opening tells of them again.
        """
        with vendor_errors("the memory store could not be written to disk"):
            self._points.flush()
            self._expect(max(self._side.points, self.count_all()))

    def _expect(self, points: int) -> None:
        if points != self._side.points:
            self._side = SideFile(self._side.record, points)
            self._side.write(self._folder)

    def close(self) -> None:
        try:
            self.flush()
        finally:
            with vendor_errors("the memory store could not be closed"):
                self._points.close()
            self._lock.release()


def _best(points: Sequence[edge.ScoredPoint], limit: int) -> list[RawHit]:
    """The best points; ids of the others are never read, which would take longer than the search."""
    scores = list(map(score_of, points))
    return best(map(found_in, points[: contenders(scores, limit)]), limit)


def _make(folder: Path, side: SideFile | None, record: StoreRecord) -> SideFile:
    """Make an empty store; under another name first, so that a crash leaves nothing half made."""
    if side is not None and side.points > 0:
        raise StoreDamaged(f"the folder {folder / POINTS} with {side.points} memories is gone: {ADVICE}")
    draft = folder / f"{POINTS}.new"
    vectors = None if record.embedder is None else {DENSE: dense_params(record.embedder.dimension)}
    config = edge.EdgeConfig(
        vectors=vectors,
        sparse_vectors={SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        wal_enabled=True,
    )
    with vendor_errors(f"the memory store at {folder} could not be made"):
        shutil.rmtree(draft, ignore_errors=True)
        points = edge.EdgeShard.create(str(draft), config)
        points.flush()
        points.close()
        made = SideFile(record, 0)
        made.write(folder)
        draft.replace(folder / POINTS)
    return made


def _load(folder: Path) -> edge.EdgeShard:
    try:
        with vendor_errors(f"the memory store at {folder} cannot be opened"):
            points = edge.EdgeShard.load(str(folder / POINTS))
            for operation in index_operations():
                points.update(operation)
            return points
    except StoreError as error:
        raise StoreDamaged(f"{error}: {ADVICE}") from error


def _with_dense(folder: Path, points: edge.EdgeShard, side: SideFile, profile: EmbedderProfile | None) -> SideFile:
    """A store made without an embedder gets its dense vectors when there is one."""
    if profile is None or side.record.embedder is not None:
        return side
    with vendor_errors(f"the memory store at {folder} could not be given dense vectors"):
        operation = edge.UpdateOperation.create_dense_vector(DENSE, profile.dimension, edge.Distance.Cosine)
        points.update(operation)
        points.flush()
        side = SideFile(StoreRecord(embedder_record(profile), side.record.bm25), side.points)
        side.write(folder)
    return side
