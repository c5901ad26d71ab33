"""Models of the `worker:post_execution` hook."""

from typing import Self

from pydantic import Field

from .fields import Key, KeyName, Text, WireModel
from .injection import MAX_DEADLINE_MS, SCHEMA_VERSION, Reason

DEFAULT_REPORT_DEADLINE_MS = 1000


class AnswerReport(WireModel):
    """A worker's answer, with the ids of the injection request.

    `block_id` names the block that the worker received; if unset, the service looks it up in its ledger. `message` is
    the worker's message without the block; only needed if receipts store no texts. The texts are not stored.
    """

    schema_version: Text = SCHEMA_VERSION
    session_id: Key
    agent_id: KeyName = "main"
    turn_id: Key
    tenant: KeyName = "default"
    answer: Text
    message: Text | None = None
    block_id: Text | None = None
    deadline_ms: int = Field(default=DEFAULT_REPORT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)


class AnswerReportResult(WireModel):
    """The ids of the memories in the turn's block, and of those that the answer used.

    If `done` is false, `reason` says why and nothing was counted. `judged_by` is `words` or `model`. `counted` is false
    if the turn was already reported.
    """

    schema_version: str = SCHEMA_VERSION
    done: bool
    reason: Reason | None = None
    injected: tuple[str, ...] = ()
    used: tuple[str, ...] = ()
    judged_by: str | None = None
    counted: bool = False
    elapsed_ms: float = 0.0

    @classmethod
    def failed(cls, reason: Reason) -> Self:
        """Return the result of a report that was not delivered."""
        return cls(done=False, reason=reason)
