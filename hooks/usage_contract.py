"""What the `worker:post_execution` hook tells and is told, beside the contract of the hook before a run."""

from typing import Self

from pydantic import Field

from .contract import MAX_DEADLINE_MS, SCHEMA_VERSION, Key, Reason, Text, WireModel

DEFAULT_REPORT_DEADLINE_MS = 1000


class AnswerReport(WireModel):
    """What a worker answered in a turn: the ids of the request that brought its block, and the answer's text.

    `block_id` is that of the block that the worker really got; unset, the service asks its ledger what was delivered.
    `message` is the worker's message without the block; it is needed only where receipts keep no texts. Neither text
    is kept.
    """

    schema_version: Text = SCHEMA_VERSION
    session_id: Key
    agent_id: Key = "main"
    turn_id: Key
    tenant: Key = "default"
    answer: Text
    message: Text | None = None
    block_id: Text | None = None
    deadline_ms: int = Field(default=DEFAULT_REPORT_DEADLINE_MS, gt=0, le=MAX_DEADLINE_MS)


class AnswerReportResult(WireModel):
    """The ids of the memories that the turn's block held, and of those that the answer used.

    Where `done` is false, `reason` says why and nothing was counted. `judged_by` is `words` or `model`; `counted` is
    false for a turn that had been reported before.
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
        """The result of a report that nobody took."""
        return cls(done=False, reason=reason)
