"""The embedded store as it lies on disk: blocking calls of Qdrant Edge, all to be made from one thread.

A store's folder holds `points/` (the engine's own files), the lock and the side file. The engine keeps a write-ahead
log, so that an update survives the death of the process as soon as the call returns; `flush` makes it survive a
loss of power and shortens the log.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, Self, assert_never
from uuid import UUID

import qdrant_edge as edge
import structlog

from worker.errors import StoreDamaged, StoreError
from worker.hits import MOST_ASKED, SPARE, Found, best, filled, listed, merge, missing, readable, settled, usable
from worker.models import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Listing,
    Memory,
    MemoryFilter,
    Page,
    SparseVector,
    StoredMemory,
    Vector,
)
from worker.payload import (
    DENSE,
    KEYWORD_KEYS,
    MEMORY,
    NUMBER_KEYS,
    SPARSE,
    TENANT,
    UNKNOWN_EMBEDDER,
    Above,
    AnyOf,
    AtLeast,
    AtMost,
    Condition,
    Equals,
    Fitness,
    StoreRecord,
    conditions,
    embedder_record,
    fitness,
    page_start,
    payload_of,
)

from .edge_files import SideFile, StoreLock

POINTS = "points"
ADVICE = (
    "put back a copy of the folder that was made while the store was closed; or move the folder away, "
    "start with an empty one and import an export of the memories"
)
LOUD_LOSS = 0.01
"""Share of missing points from which opening a store is an error in the log and not only a note of its health."""

_Requests = dict[str, dict[str, Any]]

logger = structlog.get_logger()


@contextmanager
def vendor_errors(doing: str) -> Iterator[None]:
    """Raise what the engine or the disk raised as `StoreError`, and nothing else.

    The engine raises bare `Exception`, `ValueError` and `OverflowError`; on damaged files its Rust code may panic,
    which arrives as pyo3's `PanicException`: a `BaseException` that no module exports, known by its name alone.
    """
    try:
        yield
    except BaseException as error:
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

    def search(self, tenant: str, query: HybridQuery) -> list[Hit]:
        """Both legs in one batch; see `worker.hits.merge` for what comes back and in which order."""
        with vendor_errors("the search failed"):
            return self._search(tenant, query)

    def _search(self, tenant: str, query: HybridQuery) -> list[Hit]:
        dense = self._usable(query.dense)
        where = compile_filter(conditions(tenant, query.where))
        requests: _Requests = {}
        if dense is not None:
            requests[DENSE] = {"query": edge.Query.Nearest(list(dense), using=DENSE)}
        if query.sparse is not None and query.sparse.indices:
            corpus = compile_filter((Equals(TENANT, tenant),))
            requests[SPARSE] = {
                "query": edge.Query.Nearest(_sparse(query.sparse), using=SPARSE),
                "params": edge.SearchParams(idf=edge.IdfParams(corpus=corpus)),
            }
        if not requests:
            raise StoreError("neither leg of the search can be used: there are no terms and no usable dense vector")
        legs = self._legs(requests, where, query.limit)
        return merge(dense, legs.get(DENSE, []), [point for point in legs.get(SPARSE, []) if point.score > 0.0])

    def _usable(self, vector: Vector | None) -> Vector | None:
        made_by = self._side.record.embedder
        return usable(vector, made_by.dimension) if self.fitness.dense_usable and made_by is not None else None

    def _legs(self, requests: _Requests, where: edge.Filter, limit: int) -> dict[str, list[Found]]:
        """The best of each leg; content is read for those alone, which is cheaper here than with the scores."""
        asked = min(MOST_ASKED, limit + SPARE)
        legs = self._ask(requests, {"filter": where, "limit": asked})
        tied = {name: requests[name] for name, found in legs.items() if not settled(found, limit, asked)}
        legs.update(self._ask(tied, {"filter": where, "limit": MOST_ASKED}))
        chosen = {name: best(found, limit) for name, found in legs.items()}
        vectors = [DENSE] if self.fitness.dense_usable else False
        ids = missing(chain.from_iterable(chosen.values()), ())
        content = list(map(_found, self._points.retrieve(list(ids), [MEMORY], vectors)))
        return {name: filled(found, content) for name, found in chosen.items()}

    def _ask(self, requests: _Requests, wanted: dict[str, Any]) -> dict[str, list[Found]]:
        batch = [edge.QueryRequest(**request, **wanted) for request in requests.values()]
        answers = self._points.query_batch(edge.QueryBatchRequest(batch)) if batch else []
        return {name: list(map(_found, points)) for name, points in zip(requests, answers, strict=True)}

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
            vectors[SPARSE] = _sparse(stored.sparse)
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
        entries = [listed(found.point_id, found.payload, found.vector) for found in map(_found, records)]
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


def _make(folder: Path, side: SideFile | None, record: StoreRecord) -> SideFile:
    """Make an empty store; under another name first, so that a crash leaves nothing half made."""
    if side is not None and side.points > 0:
        raise StoreDamaged(f"the folder {folder / POINTS} with {side.points} memories is gone: {ADVICE}")
    draft = folder / f"{POINTS}.new"
    vectors = None if record.embedder is None else {DENSE: _dense_params(record.embedder.dimension)}
    config = edge.EdgeConfig(
        vectors=vectors,
        sparse_vectors={SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        wal_enabled=True,
    )
    with vendor_errors(f"the memory store at {folder} could not be made"):
        shutil.rmtree(draft, ignore_errors=True)
        points = edge.EdgeShard.create(str(draft), config)
        for key in KEYWORD_KEYS:
            tenant = key == TENANT
            params = edge.KeywordIndexParams(is_tenant=tenant, enable_hnsw=tenant)
            points.update(edge.UpdateOperation.create_field_index(key, params))
        for key in NUMBER_KEYS:
            numbers = edge.IntegerIndexParams(lookup=False, range=True, enable_hnsw=False)
            points.update(edge.UpdateOperation.create_field_index(key, numbers))
        points.flush()
        points.close()
        made = SideFile(record, 0)
        made.write(folder)
        draft.replace(folder / POINTS)
    return made


def _load(folder: Path) -> edge.EdgeShard:
    try:
        with vendor_errors(f"the memory store at {folder} cannot be opened"):
            return edge.EdgeShard.load(str(folder / POINTS))
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


def _dense_params(dimension: int) -> edge.EdgeVectorParams:
    return edge.EdgeVectorParams(size=dimension, distance=edge.Distance.Cosine)


def _sparse(vector: SparseVector) -> edge.SparseVector:
    return edge.SparseVector(list(vector.indices), list(vector.values))


def _found(point: edge.ScoredPoint | edge.Record) -> Found:
    vector: Any = point.vector.get(DENSE) if isinstance(point.vector, dict) else None
    score = point.score if isinstance(point, edge.ScoredPoint) else 0.0
    return Found(str(point.id), score, point.payload, None if vector is None else tuple(vector))


def compile_filter(wanted: tuple[Condition, ...]) -> edge.Filter:
    """All of `wanted` in the engine's terms."""
    return edge.Filter(must=[_compile(condition) for condition in wanted])


def _compile(condition: Condition) -> edge.FieldCondition:
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
        case _:
            assert_never(condition)
