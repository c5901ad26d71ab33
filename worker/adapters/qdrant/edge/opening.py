"""Making, loading and extending the engine's files of an embedded store."""

import shutil
from dataclasses import replace
from pathlib import Path

import qdrant_edge as edge

from worker.adapters.qdrant.payload import DENSE, SPARSE
from worker.domain.errors import StoreDamaged, StoreError
from worker.domain.memory import EmbedderProfile
from worker.ports.store_record import StoreRecord, embedder_record

from .engine_errors import vendor_errors
from .files import SideFile
from .indexes import Indexes
from .mapped_files import release_pages
from .wire import dense_params

POINTS = "points"
ADVICE = (
    "restore a copy of the folder made while the store was closed, or move the folder away and either run "
    "`meeseeks store restore` or import an export"
)


def make(folder: Path, side: SideFile | None, record: StoreRecord) -> SideFile:
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
        made = SideFile(record, 0, frozenset())
        made.write(folder)
        draft.replace(folder / POINTS)
    return made


def load(folder: Path, expected: frozenset[str] | None) -> tuple[edge.EdgeShard, Indexes]:
    try:
        with vendor_errors(f"the memory store at {folder} cannot be opened"):
            points = edge.EdgeShard.load(str(folder / POINTS))
            indexes = Indexes(points, expected)
            release_pages(folder)
            return points, indexes
    except StoreError as error:
        raise StoreDamaged(f"{error}: {ADVICE}") from error


def with_dense(folder: Path, points: edge.EdgeShard, side: SideFile, profile: EmbedderProfile | None) -> SideFile:
    """Add dense vectors to a store that was created without an embedder."""
    if profile is None or side.record.embedder is not None:
        return side
    with vendor_errors(f"the memory store at {folder} could not be extended with dense vectors"):
        operation = edge.UpdateOperation.create_dense_vector(DENSE, profile.dimension, edge.Distance.Cosine)
        points.update(operation)
        points.flush()
        side = replace(side, record=StoreRecord(embedder_record(profile), side.record.bm25))
        side.write(folder)
    return side
