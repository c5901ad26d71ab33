"""The line of a request in a list: what is filtered by and shown, without the whole receipt."""

from pydantic import ConfigDict

from hooks.contract import Engine, Outcome, Reason, UtcTime

from .memory import DomainModel
from .receipt import Receipt

MESSAGE_CHARS = 300


class ReceiptSummary(DomainModel):
    """One request; `message` is its beginning, `model` what was asked.

    `chosen` and `considered` count memories, `given` are the ids of those chosen. Lines of former versions lack them.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")  # a later version may write more

    id: str
    at: UtcTime
    message: str = ""
    session_id: str
    agent_id: str
    turn_id: str
    user: str | None = None
    project: str | None = None
    source: str = ""
    outcome: Outcome
    reason: Reason | None = None
    engine: Engine = Engine.NONE
    degraded: bool = False
    dry_run: bool = False
    model: str | None = None
    considered: int = 0
    chosen: int = 0
    given: tuple[str, ...] = ()
    elapsed_ms: float = 0.0
    deadline_ms: int | None = None
    cost: float | None = None


class SummaryPage(DomainModel):
    """Requests, newest first; `cursor` leads to the older ones, `None` if there are none.

    `back_to` is the time of the oldest one that was looked at, whether it was wanted or not.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    summaries: tuple[ReceiptSummary, ...] = ()
    cursor: str | None = None
    back_to: UtcTime | None = None


def summary_of(receipt: Receipt) -> ReceiptSummary:
    """Return the line of a receipt, without texts if it keeps none. Pure."""
    request = receipt.request
    return ReceiptSummary(
        id=receipt.id,
        at=receipt.at,
        message=request.message[:MESSAGE_CHARS],
        session_id=request.session_id,
        agent_id=request.agent_id,
        turn_id=request.turn_id,
        user=request.scope.user,
        project=request.scope.project,
        source=request.source,
        outcome=receipt.outcome,
        reason=receipt.reason,
        engine=receipt.engine,
        degraded=receipt.degraded,
        dry_run=request.dry_run,
        model=receipt.model.name if receipt.model else None,
        considered=len(receipt.considered),
        chosen=len(receipt.chosen),
        given=receipt.chosen,
        elapsed_ms=receipt.elapsed_ms,
        deadline_ms=request.deadline_ms,
        cost=receipt.model.cost if receipt.model else None,
    )
