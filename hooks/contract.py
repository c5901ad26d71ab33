"""The contract between an orchestrator and the service: frozen models, JSON on the wire, schema version "1".

The same models serve the queue, the command line and every later door. Unknown request fields are ignored, so
that either side may be upgraded first.
"""

import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

SCHEMA_VERSION = "1"
DEFAULT_DEADLINE_MS = 3000
DEFAULT_EVENT_DEADLINE_MS = 1000
MAX_DEADLINE_MS = 60_000


def clean_text(value: object) -> object:
    """Replace unpaired surrogates, which JSON may carry and UTF-8 cannot, by U+FFFD; other values pass."""
    if not isinstance(value, str) or value.isascii():
        return value
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return value


def as_utc(value: datetime) -> datetime:
    """Times are UTC; a naive time is taken to be UTC already. Raises `ValueError` for one that has no year there."""
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("in UTC this time is not within the years 1 to 9999") from error


Text = Annotated[str, BeforeValidator(clean_text)]
Key = Annotated[Text, Field(min_length=1, max_length=512)]
UtcTime = Annotated[datetime, AfterValidator(as_utc)]


class WireModel(BaseModel):
    """Base of everything that crosses a process border."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class Outcome(StrEnum):
    """What became of a request; `memory_context` is set only for `injected`."""

    INJECTED = "injected"
    NONE_RELEVANT = "none_relevant"
    ALL_DUPLICATE = "all_duplicate"
    SKIPPED = "skipped"
    TIMEOUT = "timeout"
    ERROR = "error"


class Engine(StrEnum):
    """What made the final choice."""

    LLM = "llm"
    DECISION = "decision"
    RELEVANCE_MODEL = "judge"  # the value is older than the name; clients that are installed elsewhere know it
    DETERMINISTIC = "deterministic"
    NONE = "none"


class Reason(StrEnum):
    """Why the outcome is what it is, or why the answer is degraded."""

    DISABLED = "disabled"
    MODE_OFF = "mode_off"
    EMPTY_MESSAGE = "empty_message"
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

    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> "Reason":
        """A newer service may name a reason that this client does not know yet."""
        return cls.UNKNOWN


class Retention(StrEnum):
    """What the caller does with a block after the turn."""

    HISTORY = "history"
    EPHEMERAL = "ephemeral"
    SYSTEM = "system"


class Mode(StrEnum):
    """How much the model may be used for a request."""

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
    """What may happen to a conversation beside its turns."""

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
    """One earlier turn of the conversation, oldest first in a request."""

    role: Text = "user"
    content: Text = ""


class Scope(WireModel):
    """Whose memories may be seen. The tenant is a hard border; `None` elsewhere means "not said"."""

    tenant: Key = "default"
    user: Text | None = None
    agent: Text | None = None
    project: Text | None = None
    channel: Text | None = None


class RenderOptions(WireModel):
    """How the block is to look. The limits are those of the whole block; `None` leaves them to the settings.

    Characters are counted as JavaScript does (UTF-16 code units: an emoji has two), tokens by an estimate that errs
    upwards and is never below four bytes of UTF-8 a token.
    """

    format: BlockFormat = BlockFormat.XML
    max_chars: int | None = Field(default=None, ge=200)
    max_tokens: int | None = Field(default=None, ge=50)


def new_turn_id() -> str:
    return uuid.uuid4().hex


class InjectionRequest(WireModel):
    """One worker run that may be given memory.

    `turn_id` is the idempotency key: the same one brings the same block again. `visible_blocks` lists the ids of
    the blocks that the caller's context still shows; `None` means that the caller does not know. `now` is for tests
    and replay: memories made after it do not exist for this request.
    """

    schema_version: Text = SCHEMA_VERSION
    session_id: Key
    agent_id: Key = "main"
    turn_id: Key = Field(default_factory=new_turn_id)
    message: Text
    task_description: Text | None = None
    source: Text = "user"
    recent_messages: tuple[RecentMessage, ...] = ()
    scope: Scope = Scope()
    retention: Retention = Retention.HISTORY
    visible_blocks: tuple[Text, ...] | None = None
    render: RenderOptions = RenderOptions()
    mode: Mode | None = None
    deadline_ms: int = Field(default=DEFAULT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)
    dry_run: bool = False
    now: UtcTime | None = None


class InjectedItem(WireModel):
    """One memory of the block, as the block shows it."""

    id: str
    type: str
    text: str
    created_at: datetime | None = None
    occurred_at: datetime | None = None
    source: ItemSource = ItemSource.CONTEXTUAL
    score: float | None = None


class InjectionResult(WireModel):
    """The answer: a whole block in `memory_context`, or nothing and the reason.

    `text` holds the lines of the block without its frame, `block_id` the hash by which the block can be named in
    `visible_blocks`, `history_cap` the most blocks that the history is to hold with this one (`history.cap_blocks`),
    `stages` the milliseconds spent per stage. Place the block in front of the newest message and
    leave it there: earlier messages then stay byte for byte the same and providers' prompt caches stay warm.
    """

    schema_version: str = SCHEMA_VERSION
    outcome: Outcome
    reason: Reason | None = None
    engine: Engine = Engine.NONE
    degraded: bool = False
    memory_context: str | None = None
    text: str | None = None
    block_id: str | None = None
    items: tuple[InjectedItem, ...] = ()
    turn_id: str | None = None
    receipt_id: str | None = None
    history_cap: int | None = None
    elapsed_ms: float = 0.0
    stages: dict[str, float] = Field(default_factory=dict)

    def prefix(self, message: str) -> str:
        """`message` with the block in front of it, or `message` itself when there is no block."""
        return f"{self.memory_context}\n\n{message}" if self.memory_context else message

    @classmethod
    def nothing(cls, outcome: Outcome, reason: Reason, *, turn_id: str | None = None, elapsed_ms: float = 0.0) -> Self:
        """An answer without a block."""
        return cls(outcome=outcome, reason=reason, turn_id=turn_id, elapsed_ms=elapsed_ms)


class SessionEvent(WireModel):
    """Something that changes what a conversation's context holds; the ledger follows it.

    `agent_id` unset means every agent of the session. `agent.started` needs `agent_id`, `turn.failed` needs `turn_id`,
    `context.pruned` needs one of the last three. `parent_session_id` is what a fork was made from, where that is known.
    `visible_blocks` are the ids of the blocks that the context still shows, `removed_blocks` those that have just gone;
    `kept_turns` says that the blocks of the last so many turns are still there and older ones are not.
    """

    schema_version: Text = SCHEMA_VERSION
    type: SessionEventType
    session_id: Key
    agent_id: Key | None = None
    tenant: Key = "default"
    turn_id: Key | None = None
    parent_session_id: Key | None = None
    visible_blocks: tuple[Text, ...] | None = None
    removed_blocks: tuple[Text, ...] | None = None
    kept_turns: int | None = Field(default=None, ge=0)
    deadline_ms: int = Field(default=DEFAULT_EVENT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.type is SessionEventType.AGENT_STARTED and self.agent_id is None:
            raise ValueError("agent.started needs agent_id")
        if self.type is SessionEventType.TURN_FAILED and self.turn_id is None:
            raise ValueError("turn.failed needs turn_id")
        says = (self.visible_blocks, self.removed_blocks, self.kept_turns)
        if self.type is SessionEventType.CONTEXT_PRUNED and says == (None, None, None):
            raise ValueError("context.pruned needs visible_blocks, removed_blocks or kept_turns")
        return self


class SessionEventResult(WireModel):
    """What an event did to the ledger, in memories: forgotten ones may be shown again, adopted ones count as shown.

    Where `done` is false, `reason` says why and the ledger is as it was.
    """

    schema_version: str = SCHEMA_VERSION
    done: bool
    reason: Reason | None = None
    forgotten: int = 0
    adopted: int = 0
    elapsed_ms: float = 0.0
