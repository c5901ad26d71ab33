"""Models of the HTTP endpoints for memories.

Responses may gain fields; ignore unknown ones. `reason` is unset on success.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ConfigDict, Field

from .dates import LastLocalMoment
from .fields import KeyName, LocalTime, Text, WireModel, clean_text
from .injection import Reason, Scope


class RecallRequest(WireModel):
    """A search request.

    `budget` is `low`, `mid` or `high`. `since` and `until` limit when a memory happened or was stored; an `until`
    without a time includes the whole day; `time` is a range in words instead, such as "last week". `entity` and
    `channel` are one more name and channel. `history` includes superseded memories. Times without a zone are in
    `tz`, such as "Europe/Zurich"; unset, in the agent's setting `time_zone`. Unknown fields are rejected.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query: Text = Field(min_length=1)
    scope: Scope = Scope()
    agent_id: KeyName = "main"
    types: tuple[Text, ...] = ()
    entities: tuple[Text, ...] = ()
    entity: Text | None = None
    since: LocalTime | None = None
    until: LastLocalMoment | None = None
    time: Text | None = None
    channels: tuple[Text, ...] = ()
    channel: Text | None = None
    budget: Text | None = None
    history: bool = False
    tz: Text | None = None
    limit: int = Field(default=10, ge=1, le=100)


class RecalledMemory(WireModel):
    """A memory found by a search, ranked by `score`; `cosine` and `keyword` are its similarities to the query.

    `superseded_by` and `superseded_at` are set for superseded memories, with `history` only.
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
    pinned: bool = False


class RecallResult(WireModel):
    """The memories found, best first. `degraded` is set if part of the search failed.

    Their times are in UTC; `time_zone` is the zone in which to show them.
    """

    memories: tuple[RecalledMemory, ...] = ()
    degraded: Reason | None = None
    time_zone: str | None = None
    reason: Reason | None = None


class RememberResult(WireModel):
    """The result of storing a memory: `stored` is `created`, `updated`, `unchanged`, or unset on failure.

    With `without_vector`, only keyword search finds the memory until the store is reindexed. `general_cues` were left
    out, as they fit too many messages.
    """

    id: str | None = None
    stored: str | None = None
    without_vector: bool = False
    general_cues: tuple[str, ...] = ()
    reason: Reason | None = None


class ForgetResult(WireModel):
    """The number of deleted memories; for `undo_s` seconds, the service can restore them."""

    forgotten: int = 0
    undo_s: int = 0
    reason: Reason | None = None


def cleaned(value: Any) -> Any:
    """Return a JSON-like `value` with valid Unicode in every text."""
    if isinstance(value, Mapping):
        return {clean_text(name): cleaned(part) for name, part in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [cleaned(part) for part in value]
    return clean_text(value)
