"""Captures: what was found in turns of a conversation, what became of it, and what is never proposed again."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from hooks.contract import Key, KeyName, Name, Text, UtcTime
from hooks.contract.capture import CaptureMode

from .memory import DomainModel, Memory

MOST_PROPOSALS = 20
"""Proposals of a user that wait for review, from which on nothing more is read."""

PROPOSAL_DAYS = 14
"""Days after which a proposal that nobody looked at expires."""


class ChangeKind(StrEnum):
    """What a captured memory is to the store: new, the same fact with more detail, or one that replaces another."""

    ADD = "add"
    UPDATE = "update"
    SUPERSEDE = "supersede"


class DropReason(StrEnum):
    """Why something found in a conversation was not stored."""

    MALFORMED = "malformed"
    NOT_SAID = "not_said_by_user"
    EXAMPLE_NAME = "example_name"
    UNSUPPORTED = "unsupported"
    NOT_A_FACT = "not_a_fact"
    ONLY_ONCE = "only_once"
    SECRET = "secret"  # noqa: S105 - a reason
    SHOWN_BEFORE = "shown_before"
    KNOWN = "known"
    WAITING = "waiting"
    REJECTED_BEFORE = "rejected_before"
    BAD_TARGET = "bad_target"
    OVER_LIMIT = "over_limit"
    INBOX_FULL = "inbox_full"


class Drop(DomainModel):
    """Something that was left out; `of` is the memory or proposal that made it needless."""

    reason: DropReason
    text: Text = ""
    of: Key | None = None


class Change(DomainModel):
    """A memory to write. `conflicts` are near memories that it may contradict; they stay as they are.

    With `known`, the memory is stored already, and only replaces its target.
    """

    kind: ChangeKind = ChangeKind.ADD
    memory: Memory
    target: Key | None = None
    conflicts: tuple[Key, ...] = ()
    known: bool = False


class Stored(StrEnum):
    """What became of a change."""

    PENDING = "pending"
    CREATED = "created"
    UNCHANGED = "unchanged"
    REPLACED = "replaced"
    PROPOSED = "proposed"
    REJECTED = "rejected"
    UNDONE = "undone"


class CapturedChange(DomainModel):
    """A change of a capture, and what became of it under `id`, of the memory or of the proposal."""

    change: Change
    stored: Stored = Stored.PENDING
    id: Key


class CaptureState(StrEnum):
    """Whether a capture is being written, is finished, or was undone."""

    WRITING = "writing"
    DONE = "done"
    UNDONE = "undone"


class CaptureSource(DomainModel):
    """Where turns were said, and who owns what is found in them."""

    tenant: KeyName = "default"
    session_id: Key
    agent_id: KeyName = "main"
    user: Name | None = None
    project: Name | None = None
    channel: Name | None = None
    host: Text | None = None


class CaptureReceipt(DomainModel):
    """The receipt of a capture. `turns` are the keys of the user's turns that it read."""

    id: Key
    at: UtcTime
    source: CaptureSource
    mode: CaptureMode
    state: CaptureState = CaptureState.WRITING
    turns: tuple[Key, ...] = ()
    changes: tuple[CapturedChange, ...] = ()
    drops: tuple[Drop, ...] = ()
    model: Text | None = None
    prompt: Key | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


class Proposal(DomainModel):
    """A change that waits for review until `expires_at`; `replaces` is the text of a memory that it would replace."""

    id: Key
    at: UtcTime
    expires_at: UtcTime
    source: CaptureSource
    capture: Key
    change: Change
    replaces: Text | None = None


class Refusal(DomainModel):
    """The fingerprint of a text that was rejected or deleted: salted hashes, from which the text cannot be read.

    `exact` is that of the text, `hard` that of its numbers and negation, `words` those of its content words. `lasting`
    refusals hold wherever memories are written, the others only where they are captured.
    """

    exact: Key
    hard: Key
    words: frozenset[str] = Field(default_factory=frozenset)
    owner: Key
    lasting: bool = True


@dataclass(frozen=True, slots=True)
class WindowTurn:
    """A turn as it is read: `text` is what was typed. Only `evidence` may be cited."""

    key: str
    id: str
    role: str
    text: str
    at: datetime | None
    evidence: bool


class CaptureWork(DomainModel):
    """Turns that a model reads later, after `attempts` that failed."""

    id: Key
    source: CaptureSource
    mode: CaptureMode
    window: tuple[WindowTurn, ...] = ()
    attempts: int = 0


class TranscriptWork(DomainModel):
    """A host's transcript to capture from, in the file at `path`, after `attempts` that failed."""

    id: Key
    source: CaptureSource
    path: Text
    attempts: int = 0


class CaptureReading(DomainModel):
    """What a model read: changes to write, what was left out, the memories it saw, and what the call took."""

    changes: tuple[Change, ...] = ()
    drops: tuple[Drop, ...] = ()
    model: Text
    prompt: Key
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = None
    """US dollars, if the price is known."""

    candidates: tuple[Key, ...] = ()


@dataclass(frozen=True, slots=True)
class CaptureProgress:
    """What models read today, within the limits of the day; `waiting` pieces of work are left. Costs are US dollars.

    `failures` in a row are the last ones, with `fault`.
    """

    most_calls: int = 0
    calls: int = 0
    most_tokens: int = 0
    tokens: int = 0
    most_cost: float | None = None
    cost: float = 0.0
    memories: int = 0
    waiting: int = 0
    failures: int = 0
    fault: str | None = None
