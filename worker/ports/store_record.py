"""The recipes of a store's vectors, and whether the configured ones match them."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from worker.domain.memory import EmbedderProfile
from worker.domain.store_health import StoreHealth

REINDEX = "meeseeks store reindex"


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder of a store's dense vectors."""

    name: str
    fingerprint: str
    dimension: int

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} dimensions, fingerprint {self.fingerprint or 'unknown'})"


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """The recipes of a store's vectors; `embedder` is `None` if it has no dense vectors."""

    embedder: EmbedderRecord | None
    bm25: str

    @classmethod
    def of(cls, profile: EmbedderProfile | None, bm25_hash: str) -> Self:
        return cls(None if profile is None else embedder_record(profile), bm25_hash)

    @classmethod
    def parse(cls, values: Any) -> Self | None:
        """Read a record that `dump` made, `None` if it cannot be read."""
        try:
            embedder = values["embedder"]
            made_by = None if embedder is None else EmbedderRecord(**embedder)
            return cls(made_by, str(values["bm25"]))
        except (TypeError, KeyError):
            return None

    def dump(self) -> dict[str, Any]:
        return asdict(self)


UNKNOWN_RECORD = StoreRecord(EmbedderRecord("an unknown embedder", "", 0), "")


def embedder_record(profile: EmbedderProfile) -> EmbedderRecord:
    return EmbedderRecord(profile.name, profile.fingerprint, profile.dimension)


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a store's vectors match the configured recipes; `fault` says what differs and what to do."""

    dense_usable: bool
    fault: str | None = None
    notes: tuple[str, ...] = ()

    def health(self, engine: str, points: int, bare: int, *notes: str) -> StoreHealth:
        """Return a store's health, given its numbers of memories and of memories without a dense vector."""
        found = [*self.notes, *notes]
        if bare:
            found.append(f"{bare} memories have no dense vector: run `{REINDEX}` to add them to dense search")
        return StoreHealth(engine, points, self.dense_usable, self.fault, tuple(found), bare)


def check_compatibility(record: StoreRecord, profile: EmbedderProfile | None, bm25_hash: str) -> Compatibility:
    """Compare the recipes of a store with the configured ones.

    Dense vectors of another embedder are never searched or mixed. Keyword vectors of another recipe share most terms,
    so keyword search stays on despite the fault.
    """
    faults = []
    usable = profile is not None and record.embedder == embedder_record(profile)
    if profile is not None and not usable:
        made_by = record.embedder or "no embedder"
        faults.append(
            f"the memories were embedded with {made_by}, the service is configured with {embedder_record(profile)}: "
            f"dense search is off until `{REINDEX}` has run"
        )
    if record.bm25 != bm25_hash:
        faults.append(
            f"the keyword index was made with recipe {record.bm25 or 'unknown'}, the service is configured with "
            f"{bm25_hash}: keyword scores are inexact until `{REINDEX}` has run"
        )
    notes = ("no embedder is configured: keyword search only",) if profile is None else ()
    return Compatibility(usable, "; ".join(faults) or None, notes)
