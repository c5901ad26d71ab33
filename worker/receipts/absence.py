"""The answer to why a memory did not come; apart from how it is found, as every command loads it."""

from enum import StrEnum

from worker.domain.memory import CandidateVerdict, DomainModel


class Absence(StrEnum):
    """Why a memory did not come, or that it was considered."""

    CONSIDERED = "considered"
    NOT_SEARCHED = "not_searched"
    UNKNOWN = "unknown"
    NEWER = "newer"
    OTHER_OWNER = "other_owner"
    EXPIRED = "expired"
    REPLACED = "replaced"
    TOO_UNIMPORTANT = "too_unimportant"
    OUTSIDE_SEARCHES = "outside_searches"
    TOO_FAR = "too_far"
    TOO_MANY_PINNED = "too_many_pinned"


class MemoryExplanation(DomainModel):
    """Why a memory did not come for a request, and what would change that. `other` is what replaced it, or its double.

    Numbers are those of today's store: places count from 1 in the searches by meaning and by words.
    """

    receipt_id: str
    memory_id: str
    reason: Absence
    why: str
    remedy: str | None = None
    verdict: CandidateVerdict | None = None
    other: str | None = None
    cosine: float | None = None
    keyword: float | None = None
    meaning_place: int | None = None
    words_place: int | None = None
