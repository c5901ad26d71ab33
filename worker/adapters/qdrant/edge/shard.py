"""The embedded store on disk: blocking calls to Qdrant Edge, all from one thread.

A store's folder contains `points/` (the engine's files), the lock and the side file. The engine keeps a write-ahead
log: an update survives a crash of the process once the call returns, and a power failure after the next `flush`.
"""

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
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
    SPARSE,
    TENANT,
    page_start,
    payload_of,
    point_payload,
    searched,
)
from worker.domain.errors import StoreDamaged, StoreError
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
from worker.ports.store_record import UNKNOWN_RECORD, Compatibility, StoreRecord, check_compatibility, embedder_record

from .contents import Contents
from .files import SideFile, StoreLock
from .mapped_files import release_pages
from .space import check_space
from .wire import compile_filter, dense_params, found_in, index_operations, order, score_of, scored_in, sparse_vector

POINTS = "points"
ADVICE = (
    "restore a copy of the folder made while the store was closed, or move the folder away and either run "
    "`meeseeks store restore` or import an export"
)
LOUD_LOSS = 0.01
"""Share of missing points above which opening a store logs an error instead of a warning."""

logger = structlog.get_logger()


@contextmanager
def vendor_errors(doing: str) -> Iterator[None]:
    """Raise errors of the engine or the disk as `StoreError`, without the engine's words.

    The engine raises bare `Exception`, `ValueError` and `OverflowError`. On damaged files its Rust code may panic
    with pyo3's `PanicException`, a `BaseException` that no module exports.
    """
    try:
        yield
    except BaseException as error:  # the type of a panic cannot be imported; other errors are re-raised
        from_vendor = type(error) in (Exception, ValueError, OverflowError) or isinstance(error, OSError)
        if not from_vendor and type(error).__name__ != "PanicException":
            raise
        logger.debug("store_engine_failed", doing=doing, error=str(error))
        reason = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        raise StoreError(f"{doing}{reason}") from error


class Shard:
    """An open folder of points. Methods block and raise `StoreError`."""

    def __init__(
        self, folder: Path, lock: StoreLock, points: edge.EdgeShard, side: SideFile, compatibility: Compatibility
    ) -> None:
        self._folder = folder
        self._lock = lock
        self._points = points
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
            side = _make(folder, side, StoreRecord.of(profile, bm25_hash))
        points = _load(folder)
        notes = []
        if side is None:
            notes = [f"the record of the store at {folder} is missing: cannot check the number of its memories"]
            side = SideFile(UNKNOWN_RECORD, 0)
        side = _with_dense(folder, points, side, profile)
        shard = cls(folder, lock, points, side, check_compatibility(side.record, profile, bm25_hash))
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
        common = {"filter": compile_filter(conditions(tenant, query.where)), "limit": query.limit}
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
        request = {"filter": compile_filter(conditions(tenant, where)), "limit": limit, "query": order(by)}
        with vendor_errors("the memories could not be listed"):
            found, content = self._found({(0, DENSE): request})
        return unscored(found[0, DENSE], content)

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
            points = [self._point(tenant, key, stored) for key, stored in memories.items()]
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
            points: list[edge.Point] = []
            for key, change in due.items():
                if isinstance(change.new, StoredMemory):
                    points.append(self._point(tenant, key, change.new))
                else:
                    payload = payload_of(tenant, change.new)
                    self._points.update(edge.UpdateOperation.set_payload([key], payload))
            if points:
                self._points.update(edge.UpdateOperation.upsert_points(points))
        return [key for key in changes if key not in due]

    def _point(self, tenant: str, key: str, stored: StoredMemory) -> edge.Point:
        dense = self._usable(searched(stored))
        if dense is None and stored.dense is not None and self.compatibility.dense_usable:
            logger.warning("dense_vector_unusable", point_id=key, length=len(stored.dense))
        vectors: dict[str, Any] = {} if dense is None else {DENSE: list(dense)}
        if stored.sparse.indices:
            vectors[SPARSE] = sparse_vector(stored.sparse)
        return edge.Point(key, vectors, point_payload(tenant, stored))

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
        wanted = compile_filter(conditions(tenant, where))
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
        return self._count(compile_filter(conditions(tenant, where)))

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
            self._side = SideFile(self._side.record, points)
            self._side.write(self._folder)

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


def _best(points: Sequence[edge.ScoredPoint], limit: int) -> list[RawHit]:
    """Return the best points without reading the ids of the others, which would take longer than the search."""
    scores = list(map(score_of, points))
    return best(map(scored_in, points[: contenders(scores, limit)]), limit)


def _make(folder: Path, side: SideFile | None, record: StoreRecord) -> SideFile:
    """Create an empty store under a temporary name, then rename it, so that a crash leaves no partial store."""
    if side is not None and side.points > 0:
        raise StoreDamaged(f"the folder {folder / POINTS} with {side.points} memories is missing: {ADVICE}")
    draft = folder / f"{POINTS}.new"
    vectors = None if record.embedder is None else {DENSE: dense_params(record.embedder.dimension)}
    config = edge.EdgeConfig(
        vectors=vectors,
        sparse_vectors={SPARSE: edge.EdgeSparseVectorParams(modifier=edge.Modifier.Idf)},
        wal_enabled=True,
    )
    with vendor_errors(f"the memory store at {folder} could not be created"):
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
            release_pages(folder)
            return points
    except StoreError as error:
        raise StoreDamaged(f"{error}: {ADVICE}") from error


def _with_dense(folder: Path, points: edge.EdgeShard, side: SideFile, profile: EmbedderProfile | None) -> SideFile:
    """Add dense vectors to a store that was created without an embedder."""
    if profile is None or side.record.embedder is not None:
        return side
    with vendor_errors(f"the memory store at {folder} could not be extended with dense vectors"):
        operation = edge.UpdateOperation.create_dense_vector(DENSE, profile.dimension, edge.Distance.Cosine)
        points.update(operation)
        points.flush()
        side = SideFile(StoreRecord(embedder_record(profile), side.record.bm25), side.points)
        side.write(folder)
    return side
