"""Request models of the operations."""

from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from hooks.contract import MAX_DEADLINE_MS, Key, KeyName, LocalTime, Name, Scope, Text, UtcTime, memories
from hooks.contract.dates import LastLocalMoment
from hooks.contract.fields import LongText
from worker.domain.cues import Cues
from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS
from worker.domain.kinds import Budget
from worker.domain.memory import DomainModel, Memory, MemoryType
from worker.domain.upkeep import UpkeepRun, UpkeepStep
from worker.domain.zones import ZoneName
from worker.ports.evaluations import EvaluationOrder
from worker.receipts.case_models import Labels
from worker.receipts.replay_models import ReplayRequest
from worker.receipts.search import ReceiptFilter
from worker.settings.saved import MOST_CHANGES, Author

MAX_BATCH = 200
"""Most memories in one `put`, `forget` or `export`."""

MOST_LISTED = 10_000


class NoRequest(BaseModel):
    """A request without parameters. Ignores what it is given."""


class TenantRequest(DomainModel):
    tenant: KeyName = "default"


class IdRequest(TenantRequest):
    """One memory or one receipt of a tenant."""

    id: Key


class RememberRequest(TenantRequest):
    """A memory to store; `again` also stores what was rejected, or deleted after it was captured."""

    memory: dict[str, Any]
    again: bool = False


class PutRequest(TenantRequest):
    """Memories to store. `mask` masks secrets in them regardless of the settings."""

    memories: tuple[Memory, ...] = Field(max_length=MAX_BATCH)
    mask: bool = False


class UpdateRequest(IdRequest):
    """Fields of a memory and their new values; `again` also stores what was rejected, or deleted after its capture."""

    changes: dict[str, Any] = Field(min_length=1)
    again: bool = False


class RelateRequest(TenantRequest):
    source: Key
    kind: Key
    target: Key


class CuesOfMemory(DomainModel):
    """Cues to add to a memory; with another `version` than this one, it is left as it is."""

    id: Key
    version: int | None = Field(default=None, ge=1)
    cues: Cues = Field(min_length=1)


class AddCuesRequest(TenantRequest):
    """Cues to add. Those of a model replace earlier ones of a model; all others stay."""

    memories: tuple[CuesOfMemory, ...] = Field(min_length=1, max_length=MAX_BATCH)


class ForgetRequest(TenantRequest):
    """Memories to delete; `permanent` deletes what is kept for undoing an earlier deletion of them, too."""

    ids: tuple[Key, ...] = Field(min_length=1, max_length=MAX_BATCH)
    permanent: bool = False


class UndoRequest(TenantRequest):
    """Deleted memories to restore, without ids those of the tenant's latest deletion."""

    ids: tuple[Key, ...] = Field(default=(), max_length=MAX_BATCH)


class CaptureIdRequest(TenantRequest):
    """A capture, by the id in its receipt."""

    id: Key


class CapturesRequest(TenantRequest):
    """Captures to list, newest first."""

    limit: int = Field(default=20, ge=1, le=200)


class ProposalsRequest(TenantRequest):
    """Proposals to list, with a user only those from this user's conversations."""

    user: Name | None = None


class AcceptRequest(IdRequest):
    """A proposal to store, with another text if given."""

    text: Text | None = None


class UpkeepRequest(TenantRequest):
    """A run of upkeep to start; without `apply` it only reports."""

    apply: bool = False


class UpkeepShowRequest(TenantRequest):
    """A run of upkeep, by default the latest."""

    id: Key | None = None


class UpkeepMakeRequest(DomainModel):
    """Some of the steps of a run, to be made."""

    run: UpkeepRun
    steps: tuple[UpkeepStep, ...]


class ExportRequest(TenantRequest):
    """A page of a listing, including outdated memories, narrowed by types, owners, names, times and `words` in it.

    With a `scope`, only what is valid and visible to it is listed. `newest` lists the newest first. Times without a
    zone are in `tz`, else in the time zone of the agent.
    """

    cursor: str | None = None
    limit: int = Field(default=100, ge=1, le=MAX_BATCH)
    types: tuple[MemoryType, ...] = ()
    user: Name | None = None
    agent: Name | None = None
    project: Name | None = None
    entities: tuple[Text, ...] = ()
    since: LocalTime | None = None
    until: LastLocalMoment | None = None
    tz: ZoneName | None = None
    words: Text | None = None
    scope: Scope | None = None
    agent_id: KeyName = "main"
    newest: bool = False


class RecallRequest(memories.RecallRequest):
    """A search for memories.

    `only_relevant` finds nothing if no memory is as near as one that would be injected; `ungated` ignores every
    threshold.
    """

    types: tuple[MemoryType, ...] = ()
    budget: Budget | None = None
    also: tuple[Text, ...] = ()
    tz: ZoneName | None = None
    only_relevant: bool = False
    ungated: bool = False
    now: UtcTime | None = None


class ReceiptsRequest(TenantRequest):
    """Receipts to list, newest first. `brief` leaves out texts, settings and candidates, but not `messages`."""

    where: ReceiptFilter = ReceiptFilter()
    brief: bool = False
    messages: bool = False
    limit: int = Field(default=20, ge=1, le=1000)


class ReceiptPageRequest(TenantRequest):
    """A page of the list of requests, newest first; `cursor` is that of the page before."""

    where: ReceiptFilter = ReceiptFilter()
    limit: int = Field(default=50, ge=1, le=MAX_BATCH)
    cursor: Text | None = None


class ReplayReceiptRequest(IdRequest):
    changes: ReplayRequest = ReplayRequest()


class LabelRequest(IdRequest):
    labels: Labels = Labels()


class ExplainMemoryRequest(IdRequest):
    """The receipt of a request, and the memory of which to say why it did not come."""

    memory_id: Key


class TryRequest(TenantRequest):
    """A message to try, and for whom.

    Search scores and the relevance model choose; with `model`, the agent's model chooses, too, and with the text of a
    `prompt` file once more with this prompt.
    """

    message: LongText
    agent_id: KeyName = "main"
    user: Name | None = None
    project: Name | None = None
    channel: Name | None = None
    model: bool = False
    prompt: Text | None = None


class PromptRequest(TenantRequest):
    """The prompt of an agent's model; `shipped` is the one that comes with the service."""

    agent_id: KeyName = "main"
    shipped: bool = False


class EvaluationsRequest(TenantRequest):
    """The latest evaluations and the sets of cases; with `running`, only the evaluations that have not ended."""

    running: bool = False


class EvaluationRequest(TenantRequest):
    order: EvaluationOrder


class UsageRequest(TenantRequest):
    """Memories to list with their usage, the least useful first."""

    never_used: bool = False
    min_injected: int = Field(default=1, ge=1)
    limit: int = Field(default=100, ge=1, le=MOST_LISTED)


class SessionRequest(TenantRequest):
    session_id: Key


class SettingsRequest(DomainModel):
    """Settings of one agent, or with `null` the settings that all agents share."""

    agent_id: KeyName | None = None


class SettingsChange(DomainModel):
    """Keys of `[memory_injection]`: values to save, and saved values to remove.

    `reset_memory_injection_override` removes everything saved before; `values` are saved after that.
    With `version`, the `saved_version` that the change is based on, it is refused if others saved anything since.
    """

    values: dict[str, Any] = Field(default_factory=dict)
    unset: tuple[Text, ...] = ()
    reset_memory_injection_override: bool = False
    version: int | None = Field(default=None, ge=0)


class SettingsPatchRequest(SettingsRequest, SettingsChange):
    author: Author = Author()


class SettingsResetRequest(SettingsRequest):
    """Settings to remove, only if nobody saved anything since `version`."""

    version: int | None = Field(default=None, ge=0)
    author: Author = Author()


class SettingsHistoryRequest(DomainModel):
    """Changes of saved settings to list, newest first: of one agent, of one key, or made `before` a change.

    `shared` ones are for all agents.
    """

    agent_id: KeyName | None = None
    shared: bool = False
    key: Text | None = None
    before: int | None = Field(default=None, ge=1)
    limit: int = Field(default=50, ge=1, le=MOST_CHANGES)


class SettingsUndoRequest(DomainModel):
    """The change to take back, by its version."""

    change: int = Field(ge=1)
    author: Author = Author()


class HostScope(Scope):
    """Whose memories a host's event gets, and what the caller knows about its project.

    `repository` and `folder` are the identity and folder name of `hooks.protocol.repository`. With `explain`, the
    answer holds the native `output` and an `explanation`.
    """

    repository: Text | None = None
    folder: Text | None = None
    explain: bool = False


class HostHookRequest(DomainModel):
    """A native event of a host. Values of `scope` override those of the event."""

    host: Text
    event: Any
    deadline_ms: int = Field(default=DEFAULT_HOOK_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)
    scope: HostScope = HostScope()


class JobKind(StrEnum):
    REINDEX = "reindex"
    ROLLBACK = "rollback"
    PRUNE = "prune"
    BACKUP = "backup"
    RESTORE = "restore"
    MIGRATE = "migrate"


class StoreJobRequest(DomainModel):
    """A maintenance job. Each kind reads only its own fields; paths are on the service's machine."""

    kind: JobKind
    embedder: Text | None = None
    path: Path | None = None
    to: Text | None = None
    force: bool = False
    min_overlap: float = Field(default=0.3, ge=0.0, le=1.0)
