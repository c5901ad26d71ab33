"""What the HTTP service's doors for memories take and give, beside the contract of the hook in `contract`.

Answers may grow fields; unknown ones are ignored. In every answer `reason` is unset when all went as it should.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from .contract import Key, Reason, Scope, Text, UtcTime, WireModel, clean_text
from .moments import LastMoment


class RecallRequest(WireModel):
    """A search by hand: what it is to find, for whom, and how many at most.

    `budget` is `low`, `mid` or `high`; `since` and `until` bound when a memory happened or was noted, and an
    `until` without a time holds the whole day; `history` also finds memories that have been superseded.
    Unknown fields are refused.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: Text = Field(min_length=1)
    scope: Scope = Scope()
    agent_id: Key = "main"
    types: tuple[Text, ...] = ()
    entities: tuple[Text, ...] = ()
    since: UtcTime | None = None
    until: LastMoment | None = None
    channels: tuple[Text, ...] = ()
    budget: Text | None = None
    history: bool = False
    limit: int = Field(default=10, ge=1, le=100)


class RecalledMemory(WireModel):
    """One memory that a search found, as it may be shown; `score` orders, `cosine` and `keyword` say how near it is.

    `superseded_by` and `superseded_at` name what made it out of date, where `history` was asked for.
    """

    id: str
    type: str
    text: str
    created_at: datetime | None = None
    occurred_at: datetime | None = None
    valid_until: datetime | None = None
    superseded_at: datetime | None = None
    superseded_by: str | None = None
    score: float | None = None
    relevance: float | None = None
    cosine: float | None = None
    keyword: float | None = None


class RecallResult(WireModel):
    """What a search found, best first. `degraded` names what failed while the rest of the search went on."""

    memories: tuple[RecalledMemory, ...] = ()
    degraded: Reason | None = None
    reason: Reason | None = None


class RememberResult(WireModel):
    """What became of a memory: `stored` is `created`, `updated` or `unchanged`, or unset where it was not stored.

    `without_vector` says that only its words can be searched for until the store is reindexed.
    """

    id: str | None = None
    stored: str | None = None
    without_vector: bool = False
    reason: Reason | None = None


class ForgetResult(WireModel):
    """How many memories were deleted."""

    forgotten: int = 0
    reason: Reason | None = None


def cleaned(value: Any) -> Any:
    """`value`, made of mappings, lists and plain values, with every text valid Unicode."""
    if isinstance(value, Mapping):
        return {clean_text(name): cleaned(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [cleaned(part) for part in value]
    return clean_text(value)
