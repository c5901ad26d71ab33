"""Models of injection requests and session events, schema version "1".

Unknown request fields are ignored, so that either side may be upgraded first.
"""

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    model_validator,
)
from pydantic.json_schema import SkipJsonSchema

from ..protocol.size import MOST_RECENT, RECENT_HEAD, RECENT_TAIL, clipped
from .fields import Key, KeyName, LongText, Name, Text, UtcTime, WireModel, without_unset

SCHEMA_VERSION = "1"
DEFAULT_DEADLINE_MS = 3000
DEFAULT_EVENT_DEADLINE_MS = 1000
MAX_DEADLINE_MS = 60_000


class Outcome(StrEnum):
    """The outcome of a request; `memory_context` is set only for `injected`."""

    INJECTED = "injected"
    NONE_RELEVANT = "none_relevant"
    ALL_DUPLICATE = "all_duplicate"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    ERROR = "error"


class Engine(StrEnum):
    """What made the final selection."""

    LLM = "llm"
    DECISION = "decision"
    RELEVANCE_MODEL = "judge"  # the value predates the name; installed clients rely on it
    DETERMINISTIC = "deterministic"
    NONE = "none"


class Reason(StrEnum):
    """The reason for an outcome or a degraded result."""

    DISABLED = "disabled"
    MODE_OFF = "mode_off"
    EMPTY_MESSAGE = "empty_message"
    HOST_NOTICE = "host_notice"
    ATTACHMENT_ONLY = "attachment_only"
    SOURCE_SKIPPED = "source_skipped"
    SLASH_COMMAND = "slash_command"
    SKIP_PATTERN = "skip_pattern"
    EMOJI_ONLY = "emoji_only"
    GREETING = "greeting"
    ACKNOWLEDGEMENT = "acknowledgement"

    NOTHING_RECALLED = "nothing_recalled"
    BELOW_THRESHOLD = "below_floor"
    NOTHING_SELECTED = "nothing_selected"
    ALREADY_SHOWN = "already_shown"
    OVER_BUDGET = "over_budget"

    NO_WORKER = "no_worker"
    NO_ACK = "no_ack"
    BUSY = "busy"
    DEADLINE = "deadline"

    QUEUE_UNAVAILABLE = "queue_unavailable"
    SERVICE_UNAVAILABLE = "service_unavailable"
    ACCESS_DENIED = "access_denied"
    STORE_UNAVAILABLE = "store_unavailable"
    EMBEDDER_UNAVAILABLE = "embedder_unavailable"
    EMBEDDER_MISMATCH = "embedder_mismatch"
    BAD_REQUEST = "bad_request"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    BAD_REPLY = "bad_reply"
    INTERNAL = "internal"

    MODEL_TIMEOUT = "model_timeout"
    MODEL_UNREACHABLE = "model_unreachable"
    MODEL_ERROR = "model_error"
    MODEL_RATE_LIMITED = "model_rate_limited"
    MODEL_UNPARSEABLE = "model_unparseable"
    MODEL_TRUNCATED = "model_truncated"
    MODEL_REFUSED = "model_refused"
    MODEL_NO_TIME = "model_no_time"
    MODEL_PAUSED = "model_paused"
    OVERLOADED = "overloaded"

    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> "Reason":
        """Accept reasons of newer services as unknown."""
        return cls.UNKNOWN


class Retention(StrEnum):
    """How long the caller keeps a block after the turn."""

    HISTORY = "history"
    EPHEMERAL = "ephemeral"
    SYSTEM = "system"


class Mode(StrEnum):
    """When the model may be used for a request."""

    ALWAYS = "always"
    ESCALATE = "escalate"
    DETERMINISTIC = "deterministic"
    OFF = "off"


class BlockFormat(StrEnum):
    XML = "xml"
    SECTIONS = "sections"
    PLAIN = "plain"


class ItemSource(StrEnum):
    PINNED = "pinned"
    CONTEXTUAL = "contextual"


class SessionEventType(StrEnum):
    """Events of a conversation besides its turns."""

    SESSION_STARTED = "session.started"
    SESSION_RESUMED = "session.resumed"
    SESSION_FORKED = "session.forked"
    SESSION_CLEARED = "session.cleared"
    CONTEXT_COMPACTING = "context.compacting"
    CONTEXT_COMPACTED = "context.compacted"
    CONTEXT_PRUNED = "context.pruned"
    AGENT_STARTED = "agent.started"
    TURN_FAILED = "turn.failed"


class RecentMessage(WireModel):
    """An earlier message of the conversation; oldest first in a request."""

    role: Text = "user"
    content: Annotated[Text, AfterValidator(lambda text: clipped(text, RECENT_HEAD, RECENT_TAIL))] = ""


def latest(value: object) -> object:
    """Return the last `MOST_RECENT` of a longer list of messages. Return other values unchanged."""
    return value[-MOST_RECENT:] if isinstance(value, list | tuple) else value


class Scope(WireModel):
    """Whose memories are visible. Tenants are strictly separated; `None` in other fields means unspecified."""

    tenant: KeyName = "default"
    user: Name | None = None
    agent: Name | None = None
    project: Name | None = None
    channel: Name | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_unset(cls, given: object) -> object:
        return without_unset(given, keep=("tenant",))


def _without_default(schema: dict[str, Any]) -> None:
    schema.pop("default", None)


class RenderOptions(WireModel):
    """The format and limits of the whole block; `None` uses the settings.

    Characters are UTF-16 code units, as in JavaScript: an emoji counts as two. Tokens are a conservative estimate, at
    least one per four bytes of UTF-8.
    """

    format: BlockFormat | SkipJsonSchema[None] = Field(default=None, json_schema_extra=_without_default)
    max_chars: int | None = Field(default=None, ge=200)
    max_tokens: int | None = Field(default=None, ge=50)
    max_items: int | None = Field(default=None, ge=1, le=100)

    @model_validator(mode="before")
    @classmethod
    def _without_unset(cls, given: object) -> object:
        return without_unset(given)


def new_turn_id() -> str:
    return uuid.uuid4().hex


class InjectionRequest(WireModel):
    """A request for the relevant memories of one worker run.

    `turn_id` is the idempotency key: the same id returns the same block. `visible_blocks` lists the ids of the blocks
    still in the caller's context; `None` means unknown. Long texts lose their middle, and only the latest earlier
    messages are kept, see `protocol.size`. Optional fields that are null or empty count as unset. `now` is for tests
    and replay and hides memories created later. `tz` is the time zone of "yesterday" and of shown dates, such as
    "Europe/Zurich"; unset, the agent's setting `time_zone` applies.
    """

    schema_version: Text = SCHEMA_VERSION
    session_id: Key
    agent_id: KeyName = "main"
    turn_id: Key = Field(default_factory=new_turn_id)
    message: LongText
    task_description: LongText | None = None
    source: Text = "user"
    recent_messages: Annotated[tuple[RecentMessage, ...], BeforeValidator(latest)] = ()
    scope: Scope = Scope()
    retention: Retention = Retention.HISTORY
    visible_blocks: tuple[Text, ...] | None = None
    render: RenderOptions = RenderOptions()
    mode: Mode | None = None
    deadline_ms: int = Field(default=DEFAULT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)
    dry_run: bool = False
    min_importance: float | None = Field(default=None, ge=0.0, le=1.0)
    now: UtcTime | None = None
    tz: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_unset(cls, given: object) -> object:
        return without_unset(given, keep=("message", "source"))


class InjectedItem(WireModel):
    """One memory of the block, as shown in it."""

    id: str
    type: str
    text: str
    created_at: datetime | None = None
    occurred_at: datetime | None = None
    source: ItemSource = ItemSource.CONTEXTUAL
    score: float | None = None


class InjectionResult(WireModel):
    """The result: a block in `memory_context`, or a reason.

    `text` contains the lines of the block without its frame, `block_id` its id for `visible_blocks`, `block_key` the
    secret that tells the service's blocks from others, `history_cap` the
    maximum number of blocks in the history including this one (see `history.cap_blocks`), and `stages` the milliseconds
    per stage. Place the block in front of the newest message and leave it there, so that earlier messages do not change
    and the provider's prompt cache stays valid.
    """

    schema_version: str = SCHEMA_VERSION
    outcome: Outcome
    reason: Reason | None = None
    engine: Engine = Engine.NONE
    degraded: bool = False
    memory_context: str | None = None
    text: str | None = None
    block_id: str | None = None
    block_key: str | None = Field(default=None, repr=False)
    items: tuple[InjectedItem, ...] = ()
    turn_id: str | None = None
    receipt_id: str | None = None
    history_cap: int | None = None
    filtered: int = 0
    elapsed_ms: float = 0.0
    stages: dict[str, float] = Field(default_factory=dict)

    def prefix(self, message: str) -> str:
        """Return `message` with the block in front, if there is one."""
        return f"{self.memory_context}\n\n{message}" if self.memory_context else message

    @classmethod
    def nothing(cls, outcome: Outcome, reason: Reason, *, turn_id: str | None = None, elapsed_ms: float = 0.0) -> Self:
        """Return a result without a block."""
        return cls(outcome=outcome, reason=reason, turn_id=turn_id, elapsed_ms=elapsed_ms)


class SessionEvent(WireModel):
    """An event that changes a conversation's context, and with it the ledger.

    Without `agent_id`, the event applies to every agent of the session. `agent.started` needs `agent_id`, `turn.failed`
    needs `turn_id`, and `context.pruned` needs `visible_blocks` (ids of the blocks still in the context),
    `removed_blocks` (ids of the removed blocks) or `kept_turns` (only blocks of the last turns are left).
    `parent_session_id` is the origin of a fork, if known.
    """

    schema_version: Text = SCHEMA_VERSION
    type: SessionEventType
    session_id: Key
    agent_id: KeyName | None = None
    tenant: KeyName = "default"
    turn_id: Key | None = None
    parent_session_id: Key | None = None
    visible_blocks: tuple[Text, ...] | None = None
    removed_blocks: tuple[Text, ...] | None = None
    kept_turns: int | None = Field(default=None, ge=0)
    deadline_ms: int = Field(default=DEFAULT_EVENT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)

    @model_validator(mode="before")
    @classmethod
    def _without_unset(cls, given: object) -> object:
        return without_unset(given, keep=("tenant",))

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type is SessionEventType.AGENT_STARTED and self.agent_id is None:
            raise ValueError("agent.started needs agent_id")
        if self.type is SessionEventType.TURN_FAILED and self.turn_id is None:
            raise ValueError("turn.failed needs turn_id")
        changes = (self.visible_blocks, self.removed_blocks, self.kept_turns)
        if self.type is SessionEventType.CONTEXT_PRUNED and changes == (None, None, None):
            raise ValueError("context.pruned needs visible_blocks, removed_blocks or kept_turns")
        return self


class SessionEventResult(WireModel):
    """The number of memories changed in the ledger: forgotten ones may be shown again, adopted ones count as shown.

    If `done` is false, `reason` says why and the ledger is unchanged.
    """

    schema_version: str = SCHEMA_VERSION
    done: bool
    reason: Reason | None = None
    forgotten: int = 0
    adopted: int = 0
    elapsed_ms: float = 0.0
