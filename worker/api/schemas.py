"""What endpoints take and give beside the contract of the hook. Answers may grow fields that callers ignore."""

from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hooks.contract import (
    DEFAULT_EVENT_DEADLINE_MS,
    MAX_DEADLINE_MS,
    SCHEMA_VERSION,
    Key,
    Reason,
    SessionEventType,
    Text,
    UtcTime,
    WireModel,
)
from worker.domain.memory import DomainModel, Memory, MemoryScope, MemoryType, Relation
from worker.operations.payloads import TenantPayload
from worker.receipts.cases import Labels
from worker.receipts.replay import ReplayRequest
from worker.receipts.search import ReceiptFilter

MOST_REPORTED = 1000
"""Rejected entries of an import that its report lists one by one."""

MOST_REPLAYS, MOST_REPLAYING_MS = 100, 600_000
"""Receipts that one request runs again, and the milliseconds that it may take for that."""


class SessionEventBody(WireModel):
    """What happened to the session of the path; see `docs/sessions.md`."""

    schema_version: Text = SCHEMA_VERSION
    type: SessionEventType
    agent_id: Key | None = None
    tenant: Key = "default"
    turn_id: Key | None = None
    parent_session_id: Key | None = None
    visible_blocks: tuple[Text, ...] | None = None
    removed_blocks: tuple[Text, ...] | None = None
    kept_turns: int | None = Field(default=None, ge=0)
    deadline_ms: int = Field(default=DEFAULT_EVENT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)


class ShownMemory(BaseModel):
    """A memory that an agent has in its context, as far as the ledger knows."""

    id: str
    version: int
    turn: int
    block_id: str
    lasting: bool
    text: str


class AgentContext(BaseModel):
    agent_id: str
    turn: int
    compaction_pending: bool
    shown: list[ShownMemory]


class SessionView(BaseModel):
    session_id: str
    agents: list[AgentContext]


class FoundMemory(BaseModel):
    """One memory that a search found; `score` orders those of one answer and says nothing across answers."""

    id: str
    type: MemoryType
    text: str
    created_at: datetime | None = None
    occurred_at: datetime | None = None
    valid_until: datetime | None = None
    superseded_at: datetime | None = None
    superseded_by: str | None = None
    cosine: float | None = None
    keyword: float | None = None
    relevance: float | None = None
    score: float | None = None
    legs: list[str] = Field(default_factory=list)


class RecallView(BaseModel):
    memories: list[FoundMemory]
    degraded: Reason | None = None
    stages: dict[str, float] = Field(default_factory=dict)
    size: int | None = None
    keyword_unit: float | None = None


class NewMemory(DomainModel):
    """A memory to remember. Without an `id` it gets one that the same content in the same scope always gets."""

    content: Text = Field(min_length=1)
    id: Key | None = None
    type: MemoryType = MemoryType.FACT
    importance: float = Field(default=0.5, ge=0.0, le=1.0)
    created_at: UtcTime | None = None
    occurred_at: UtcTime | None = None
    valid_until: UtcTime | None = None
    entities: tuple[Key, ...] = ()
    relations: tuple[Relation, ...] = ()
    scope: MemoryScope = MemoryScope()
    channel: Text | None = None
    source: Text | None = None


class RememberBody(TenantPayload):
    memory: NewMemory


class RememberView(BaseModel):
    id: str
    stored: Annotated[str, Field(description="created, updated or unchanged.")]
    without_vector: bool = Field(default=False, description="Only its words can be searched for until a reindex.")


class MemoryChanges(DomainModel):
    """Fields of a memory and their new values, at least one; what is not said stays as it is."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1})

    content: Text | None = Field(default=None, min_length=1)
    type: MemoryType | None = None
    importance: float | None = Field(default=None, ge=0.0, le=1.0)
    created_at: UtcTime | None = None
    occurred_at: UtcTime | None = None
    valid_until: UtcTime | None = None
    entities: tuple[Key, ...] | None = None
    relations: tuple[Relation, ...] | None = None
    scope: MemoryScope | None = None
    channel: Text | None = None
    source: Text | None = None


NULLABLE = frozenset({"created_at", "occurred_at", "valid_until", "channel", "source"})
"""Fields of `MemoryChanges` that `null` clears; for the others `null` says nothing."""


class UpdateBody(TenantPayload):
    changes: MemoryChanges


class RelateBody(TenantPayload):
    """A relation to another memory; `updates` and `supersedes` make that one out of date."""

    kind: Key
    target: Key


class MemoryView(BaseModel):
    memory: Memory


class UsageView(BaseModel):
    """How often a memory was in a block, and how often the answer used it, as far as answers were reported."""

    injected: int
    used: int
    last_injected: datetime | None
    last_used: datetime | None


class MemoryHistory(BaseModel):
    """A memory, what it replaced and what replaced it (nearest first), what else names it, and whether it helped."""

    memory: Memory
    earlier: list[Memory]
    later: list[Memory]
    related: list[Memory]
    usage: UsageView | None = None


class MemoryPage(BaseModel):
    """Memories in no order that means anything; `cursor` brings the next page, `null` is the end."""

    memories: list[Memory]
    cursor: str | None


class ForgetView(BaseModel):
    forgotten: int


class RejectedEntry(BaseModel):
    """An entry of an imported file that was not taken; `line` counts from 1, 0 is the file as a whole."""

    line: int
    reason: str


class ImportReport(BaseModel):
    """What became of an imported file; in a dry run nothing is stored and `read` alone counts."""

    read: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    without_vector: int = 0
    refused: int = 0
    rejected: list[RejectedEntry] = Field(
        default_factory=list, description=f"The first {MOST_REPORTED} entries that were refused."
    )


class MemoryUsage(UsageView):
    """One memory's counts, with the beginning of its text."""

    id: str
    text: str


class UsageList(BaseModel):
    """The counts of memories that are still there; `counted` is how many have any."""

    memories: list[MemoryUsage]
    counted: int


class ReceiptList(BaseModel):
    receipts: list[dict[str, Any]]


class ReceiptsQuery(ReceiptFilter):
    """Which receipts are listed; what is not said does not matter."""

    model_config = ConfigDict(extra="ignore")

    tenant: Key = Field(default="default", description="Whose; a token that is for one tenant goes before it.")
    brief: bool = Field(default=False, description="Without texts, settings and what was considered.")
    limit: int = Field(default=20, ge=1, le=1000)


class ReplayBody(ReplayRequest):
    """What is to be different this time; `{}` changes nothing. Models are for tokens of every tenant to name."""

    tenant: Key = "default"


class ReplaysBody(TenantPayload):
    """Which receipts to run again, newest first, with which changes, and in how many milliseconds altogether."""

    where: ReceiptFilter = ReceiptFilter()
    changes: ReplayRequest = ReplayRequest()
    limit: int = Field(default=20, ge=1, le=MOST_REPLAYS)
    within_ms: int = Field(default=60_000, gt=0, le=MOST_REPLAYING_MS)


class LabelBody(Labels):
    """The labels of a receipt's memories; at least one, `accept`, or `nothing` where none was worth injecting."""

    tenant: Key = "default"
    nothing: bool = False

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        labelled = bool(self.essential or self.useful or self.accept)
        if self.nothing and labelled:
            raise ValueError("nothing: cannot be said beside essential, useful or accept")
        if not (labelled or self.nothing or self.forbidden):
            raise ValueError("say essential, useful, forbidden, accept or nothing")
        return self


class SettingValue(BaseModel):
    """A value in force: where it comes from, and where that stands."""

    value: Any
    origin: str
    at: str | None = None


class SettingsView(BaseModel):
    """Every setting in force; `memory_injection_overridden` is whether anything was set for whom they are."""

    agent: str | None
    version: str
    saved_version: int
    memory_injection_overridden: bool
    memory_injection: dict[str, SettingValue]
    agents: dict[str, Any]
    service: dict[str, SettingValue]
    faults: dict[str, str]
    warnings: list[str]
    needs_restart: list[str]
    dropped: list[str] | None = None


class SettingsChange(DomainModel):
    """Keys of `[memory_injection]`: those to save with their values, and those whose saved value is to go."""

    values: dict[str, Any] = Field(default_factory=dict)
    unset: tuple[Text, ...] = ()


class ServiceStatus(BaseModel):
    status: str
