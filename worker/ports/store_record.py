"""The record a store keeps of the embedder it was filled with, and whether a configured embedder fits it."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from worker.domain.memory import EmbedderProfile

REINDEX = "meeseeks store reindex"


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder that made the dense vectors of a store."""

    name: str
    fingerprint: str
    dimension: int

    def __str__(self) -> str:
        return f"{self.name} ({self.dimension} dimensions, fingerprint {self.fingerprint or 'unknown'})"


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """By which recipes the vectors of a store were made; `embedder` is `None` while it has no dense vectors."""

    embedder: EmbedderRecord | None
    bm25: str

    @classmethod
    def of(cls, profile: EmbedderProfile | None, bm25_hash: str) -> Self:
        """The record of a store that is made now."""
        return cls(None if profile is None else embedder_record(profile), bm25_hash)

    @classmethod
    def parse(cls, values: Any) -> Self | None:
        """The record in `values` as `dump` made it, or `None` where there is none that can be read."""
        try:
            embedder = values["embedder"]
            made_by = None if embedder is None else EmbedderRecord(**embedder)
            return cls(made_by, str(values["bm25"]))
        except (TypeError, KeyError):
            return None

    def dump(self) -> dict[str, Any]:
        return asdict(self)


def embedder_record(profile: EmbedderProfile) -> EmbedderRecord:
    """What a store keeps of an embedder's profile."""
    return EmbedderRecord(profile.name, profile.fingerprint, profile.dimension)


@dataclass(frozen=True, slots=True)
class Fitness:
    """Whether a store's vectors fit the configured recipes; `fault` says what does not and what to do."""

    dense_usable: bool
    fault: str | None = None
    notes: tuple[str, ...] = ()


def fitness(record: StoreRecord, profile: EmbedderProfile | None, bm25_hash: str) -> Fitness:
    """Compare the recipes of a store with the configured ones.

    Dense vectors of another embedder are never searched nor mixed. Keyword vectors of another recipe still share
    most of their terms, so that leg keeps serving; the fault is reported all the same.
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
            f"{bm25_hash}: keyword scores are off until `{REINDEX}` has run"
        )
    notes = ("no embedder is configured: keyword search only",) if profile is None else ()
    return Fitness(usable, "; ".join(faults) or None, notes)


def bare_note(count: int) -> str:
    """What is said of memories that were stored while nothing could embed them."""
    return f"{count} memories have no dense vector: they are found by their words alone until `{REINDEX}` has run"
