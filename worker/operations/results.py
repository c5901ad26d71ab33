"""Result models of the operations. Answers may gain fields; callers ignore the ones they do not know."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, Field, PlainSerializer

from hooks.contract import Reason
from hooks.contract.memories import RecalledMemory
from worker.domain.capture import CaptureProgress, CaptureReceipt, Proposal
from worker.domain.cue_progress import CueProgress
from worker.domain.memory import Memory, MemoryType
from worker.domain.model_profile import ModelState
from worker.domain.store_health import StoreHealth
from worker.domain.upkeep import UpkeepRun, UpkeepStep
from worker.domain.zones import DEFAULT_ZONE
from worker.ports.evaluations import EvaluationState
from worker.receipts.trial_models import Trial
from worker.settings.saved import SavedChange
from worker.transfer.fields import to_fields

# lambdas have no return annotation, so that the JSON schema stays that of the annotated type
MemoryFields = Annotated[Memory, PlainSerializer(lambda memory: to_fields(memory))]  # noqa: PLW0108
IsoTime = Annotated[datetime, PlainSerializer(lambda time: time.isoformat())]


class RememberResult(BaseModel):
    id: str
    stored: Annotated[str, Field(description="created, updated or unchanged.")]
    without_vector: bool = Field(default=False, description="Only keyword search finds it until the next reindex.")
    general_cues: list[str] = Field(default_factory=list, description="Cues left out, as they fit too many messages.")


class PutResult(BaseModel):
    """Counts. Those `rejected_before` were rejected, or deleted after they were captured, and are not stored."""

    created: int
    updated: int
    unchanged: int
    without_vector: int
    rejected_before: int = 0


class CaptureList(BaseModel):
    captures: list[CaptureReceipt]


class ProposalList(BaseModel):
    """Proposals that wait for review, oldest first."""

    proposals: list[Proposal]


class AcceptResult(BaseModel):
    id: str
    stored: Annotated[
        str,
        Field(
            description="created; unchanged if a memory says the same already; or replaced if it was stored already, "
            "and now supersedes another one."
        ),
    ]


class RejectResult(BaseModel):
    rejected: str


class UpkeepReport(BaseModel):
    """A run of upkeep, and the beginnings of the texts of its memories, as far as they are still stored."""

    run: UpkeepRun
    texts: dict[str, str]


class UpkeepMakeResult(BaseModel):
    """What became of the steps."""

    steps: list[UpkeepStep]


class AddCuesResult(BaseModel):
    """Ids of memories that got cues, and of those that did not: unknown, of another version, or with nothing to add."""

    added: list[str]
    left: list[str]


class MemoryResult(BaseModel):
    memory: MemoryFields


class UsageCounts(BaseModel):
    """How often a memory was injected, and how often a reported answer used it."""

    injected: int
    used: int
    last_injected: IsoTime | None
    last_used: IsoTime | None


class MemoryHistory(BaseModel):
    """A memory, the ones it replaced and that replaced it (nearest first), related memories, and its usage."""

    memory: MemoryFields
    earlier: list[MemoryFields]
    later: list[MemoryFields]
    related: list[MemoryFields]
    usage: UsageCounts | None = None


class MemoryPage(BaseModel):
    """Memories in no particular order, or the newest first. `cursor` requests the next page; `null` marks the last."""

    memories: list[MemoryFields]
    cursor: str | None
    time_zone: Annotated[str, Field(description="Time zone in which to show dates.")] = DEFAULT_ZONE


class ForgetResult(BaseModel):
    """The number of deleted memories, and the seconds in which that can be undone, 0 if it cannot."""

    forgotten: int
    undo_s: int = 0


class UndoResult(BaseModel):
    """The memories that were restored."""

    restored: list[MemoryFields]


class FoundMemory(RecalledMemory):
    """A memory that a search found. Its `score` is comparable only within one answer."""

    type: MemoryType
    legs: list[str] = Field(default_factory=list)
    pinned: bool = False


class RecallResult(BaseModel):
    memories: list[FoundMemory]
    degraded: Reason | None = None
    stages: dict[str, float] = Field(default_factory=dict)
    size: int | None = None
    keyword_unit: float | None = None
    time_zone: Annotated[str, Field(description="Time zone in which to show dates.")] = DEFAULT_ZONE


class ReceiptList(BaseModel):
    receipts: list[dict[str, Any]]


class KeptCase(BaseModel):
    """A labelled case that was added to a file of the service, or replaced the earlier one of its receipt."""

    id: str
    file: str
    essential: int
    useful: int
    forbidden: int


class TryResult(BaseModel):
    trials: list[Trial]


class CaseSet(BaseModel):
    """A set of labelled cases, and how many tasks it has."""

    name: str
    tasks: int


class EvaluationList(BaseModel):
    """The latest evaluations of a tenant, newest first, and the sets of cases that can be evaluated."""

    evaluations: list[EvaluationState]
    sets: list[CaseSet]


class MemoryUsage(UsageCounts):
    """A memory's usage and the beginning of its text."""

    id: str
    text: str


class UsageList(BaseModel):
    """Usage of the memories that still exist. `counted` is the number of memories with any usage."""

    memories: list[MemoryUsage]
    counted: int


class ShownMemory(BaseModel):
    """A memory that an agent has in its context, according to the ledger."""

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


class SessionResult(BaseModel):
    session_id: str
    agents: list[AgentContext]


class SettingSource(BaseModel):
    """A value, its kind of source, and its place there."""

    value: Any
    origin: str
    at: str | None = None


class SettingValue(SettingSource):
    """A value in force; if it was saved for what is shown, `inherited` is the one that applies without it."""

    inherited: SettingSource | None = None


class SettingsResult(BaseModel):
    """Every setting in force. `memory_injection_overridden` says whether any value was saved for this agent or all."""

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


class SettingsHistoryEntry(SavedChange):
    """A change of saved settings; `undone_by` took it back. `not_undoable` says why it cannot be undone now."""

    undone_by: int | None
    not_undoable: str | None


class SettingsHistoryResult(BaseModel):
    """Changes, newest first. Older ones are listed with `before` set to `cursor`."""

    changes: list[SettingsHistoryEntry]
    cursor: int | None


class HealthResult(BaseModel):
    store: StoreHealth
    embedder: str | None
    model: str | None
    decides: str = "the relevance model"
    relevance_model: str
    store_at: str
    pid: int
    models: list[ModelState]
    settings: dict[str, Any]
    cues: CueProgress | None = None
    captures: CaptureProgress | None = None


class StoreJobResult(BaseModel):
    """The current or last maintenance job; only `state`, "none", without one."""

    state: str
    id: str | None = None
    kind: str | None = None
    phase: str | None = None
    done: int | None = None
    total: int | None = None
    result: dict[str, Any] | None = None
    error: str | None = None


class StoreInfoResult(BaseModel):
    store: dict[str, Any]
    made_by: dict[str, Any]
    generations: dict[str, Any]
    rows: dict[str, int]
    job: StoreJobResult
