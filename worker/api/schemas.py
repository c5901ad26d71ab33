"""Request bodies and responses that only the HTTP API has."""

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hooks.contract import (
    DEFAULT_EVENT_DEADLINE_MS,
    MAX_DEADLINE_MS,
    SCHEMA_VERSION,
    Key,
    KeyName,
    Name,
    SessionEventType,
    Text,
    UtcTime,
    WireModel,
)
from worker.domain.cues import Cues
from worker.domain.memory import DomainModel, MemoryScope, MemoryType, Relation
from worker.operations.requests import MAX_BATCH, TenantRequest
from worker.receipts.case_models import Labels
from worker.receipts.replay_models import ReplayRequest
from worker.receipts.search import ReceiptFilter

MOST_REPLAYS, MOST_REPLAYING_MS = 100, 600_000
"""Limits of one replay request: receipts and milliseconds."""


class SessionEventBody(WireModel):
    """An event of the session in the path; see `docs/sessions.md`."""

    schema_version: Text = SCHEMA_VERSION
    type: SessionEventType
    agent_id: KeyName | None = None
    tenant: KeyName = "default"
    turn_id: Key | None = None
    parent_session_id: Key | None = None
    visible_blocks: tuple[Text, ...] | None = None
    removed_blocks: tuple[Text, ...] | None = None
    kept_turns: int | None = Field(default=None, ge=0)
    deadline_ms: int = Field(default=DEFAULT_EVENT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)


class NewMemory(DomainModel):
    """A memory to store. Without an `id`, the id is derived from its content and scope."""

    content: Text = Field(min_length=1)
    context: Text | None = None
    id: Key | None = None
    type: MemoryType = MemoryType.FACT
    importance: float = Field(default=0.5, ge=0.0, le=1.0)
    created_at: UtcTime | None = None
    occurred_at: UtcTime | None = None
    valid_until: UtcTime | None = None
    entities: tuple[Key, ...] = ()
    relations: tuple[Relation, ...] = ()
    scope: MemoryScope = MemoryScope()
    channel: Name | None = None
    source: Text | None = None
    cues: Cues = Field(default=(), description="Short messages at which the memory would matter.")
    pinned: bool = Field(default=False, description="Inject it whatever the message is.")


class RememberBody(TenantRequest):
    """A memory to store; `again` also stores what was rejected, or deleted after it was captured."""

    memory: NewMemory
    again: bool = False

    @model_validator(mode="before")
    @classmethod
    def _check_place(cls, given: Any) -> Any:
        if isinstance(given, dict) and "content" in given and "memory" not in given:
            raise ValueError('put the fields of the memory into "memory": {"memory": {"content": "..."}}')
        return given


class MemoryChanges(DomainModel):
    """New values of at least one field; the other fields stay unchanged."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    content: Text | None = Field(default=None, min_length=1)
    context: Text | None = None
    type: MemoryType | None = None
    importance: float | None = Field(default=None, ge=0.0, le=1.0)
    created_at: UtcTime | None = None
    occurred_at: UtcTime | None = None
    valid_until: UtcTime | None = None
    entities: tuple[Key, ...] | None = None
    relations: tuple[Relation, ...] | None = None
    scope: MemoryScope | None = None
    channel: Name | None = None
    source: Text | None = None
    cues: Cues | None = Field(default=None, description="New content drops the cues that are not given with it.")
    pinned: bool | None = Field(default=None, description="Inject it whatever the message is.")


NULLABLE = frozenset({"context", "created_at", "occurred_at", "valid_until", "channel", "source"})
"""Fields of `MemoryChanges` that `null` clears; other fields ignore `null`."""


class UpdateBody(TenantRequest):
    """Changes of a memory; `again` also stores what was rejected, or deleted after it was captured."""

    changes: MemoryChanges
    again: bool = False


class RelateBody(TenantRequest):
    """A relation to another memory; `updates` and `supersedes` mark the target as outdated."""

    kind: Key
    target: Key


class UndoBody(TenantRequest):
    """Ids of deleted memories to restore; without any, those of the tenant's latest deletion."""

    ids: list[Key] = Field(default=[], max_length=MAX_BATCH)


class UpkeepBody(TenantRequest):
    """Without `apply`, the changes are only listed."""

    apply: bool = False


class AcceptBody(TenantRequest):
    """`text` replaces the text of the proposal."""

    text: Text | None = Field(default=None, min_length=1)


class ReceiptsQuery(ReceiptFilter):
    """A filter of receipts."""

    tenant: KeyName = Field(default="default", description="Tenant; a token bound to one tenant overrides it.")
    brief: bool = Field(default=False, description="Leave out texts, settings and candidates.")
    limit: int = Field(default=20, ge=1, le=1000)


class ReplayBody(ReplayRequest):
    """What to change; `{}` changes nothing. Only a token for all tenants may name models or patterns."""

    tenant: KeyName = "default"


class ReplaysBody(TenantRequest):
    """Receipts to replay, newest first; what to change; and the total time in milliseconds."""

    where: ReceiptFilter = ReceiptFilter()
    changes: ReplayRequest = ReplayRequest()
    limit: int = Field(default=20, ge=1, le=MOST_REPLAYS)
    within_ms: int = Field(default=60_000, gt=0, le=MOST_REPLAYING_MS)


class LabelBody(Labels):
    """Labels of a receipt's memories: at least one label, `accept`, or `nothing` if none was worth injecting."""

    tenant: KeyName = "default"
    nothing: bool = False

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        labelled = bool(self.essential or self.useful or self.missing or self.accept)
        if self.nothing and labelled:
            raise ValueError("nothing: cannot be combined with essential, useful, missing or accept")
        if not (labelled or self.nothing or self.forbidden):
            raise ValueError("name essential, useful, forbidden or missing memories, or use accept or nothing")
        return self


class ServiceStatus(BaseModel):
    """`loading` names the models that are not ready yet; the service answers without them meanwhile."""

    status: str
    loading: list[str] | None = None
