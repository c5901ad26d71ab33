"""Models of a capture: turns of a conversation in which memories are looked for."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import AfterValidator, Field, field_validator

from .fields import Key, KeyName, Name, Text, WireModel, as_utc
from .injection import Reason

MOST_TURNS = 2_000
"""Maximum turns of a capture."""


class CaptureMode(StrEnum):
    """What becomes of memories found in conversations: nothing is read, they wait for review, or they are stored."""

    OFF = "off"
    REVIEW = "review"
    AUTO = "auto"


def _aware(value: datetime) -> datetime:
    """Keep the zone in which a time was said, UTC if none is given; it decides what "tomorrow" is."""
    as_utc(value)
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


SaidAt = Annotated[datetime, AfterValidator(_aware)]


class ConversationTurn(WireModel):
    """What was said. Only the `user` is believed; the `assistant` explains what "it" is; other roles are ignored.

    `at` is when it was said; without it, words such as "tomorrow" give no date. `context` marks an older turn that only
    explains later ones.
    """

    id: Key | None = None
    role: Text
    text: Text
    at: SaidAt | None = None
    context: bool = False


class CaptureRequest(WireModel):
    """Turns of a session, oldest first. Turns that were captured before are skipped.

    `user`, `project` and `channel` own what is found. `mode` replaces the agent's setting.
    """

    session_id: Key
    agent_id: KeyName = "main"
    tenant: KeyName = "default"
    user: Name | None = None
    project: Name | None = None
    channel: Name | None = None
    host: Text | None = None
    turns: tuple[ConversationTurn, ...] = Field(max_length=MOST_TURNS)
    mode: Text | None = None

    @field_validator("mode")
    @classmethod
    def _known_mode(cls, value: str | None) -> str | None:
        if value is not None and value not in tuple(CaptureMode):
            raise ValueError(f"use {CaptureMode.OFF}, {CaptureMode.REVIEW} or {CaptureMode.AUTO}")
        return value


class CapturedChange(WireModel):
    """A memory that was written or proposed. `operation` is `add`, `update` or `supersede` (of `target`).

    `stored` is `created`, `unchanged` or `proposed`; `id` is that of the memory, or of the proposal, and
    `capture` that of the receipt.
    """

    id: str
    operation: str
    stored: str
    text: str
    target: str | None = None
    capture: str = ""


class LeftOutChange(WireModel):
    """What was not written, and why."""

    reason: str
    text: str = ""


class CaptureResult(WireModel):
    """The result of a capture: its receipts by id, what was written or proposed, and what was left out.

    `new_turns` counts the user's turns that were not captured before. `waiting` says that a model still reads them. If
    `done` is false, `reason` says why, and nothing was captured.
    """

    done: bool = True
    reason: Reason | None = None
    mode: str = ""
    new_turns: int = 0
    captures: tuple[str, ...] = ()
    changes: tuple[CapturedChange, ...] = ()
    left_out: tuple[LeftOutChange, ...] = ()
    waiting: bool = False

    @classmethod
    def failed(cls, reason: Reason) -> Self:
        """Return the result of a capture that was not delivered."""
        return cls(done=False, reason=reason)
