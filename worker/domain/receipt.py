"""The receipt of one request: what was considered, chosen and dropped, why, and how long it took."""

from datetime import datetime

from pydantic import Field

from hooks.contract import Engine, InjectionRequest, ItemSource, Outcome, Reason, UtcTime

from .kinds import ReceiptKeep, SearchKind
from .memory import CandidateVerdict, DomainModel, MemoryType


class ConsideredMemory(DomainModel):
    """One candidate and its fate; `text` is as the block would show it.

    `relevance` is what thresholds are on, `legs` the ways in which it was found, `probability` what the
    judge or a decision model gave it. `duplicate_of` is the id of the memory that says the same or has replaced it,
    where that is why it is out.
    """

    id: str
    type: MemoryType
    text: str
    version: int
    created_at: datetime | None = None
    cosine: float | None = None
    keyword: float | None = None
    relevance: float | None = None
    score: float
    source: ItemSource = ItemSource.CONTEXTUAL
    legs: tuple[SearchKind, ...] = ()
    probability: float | None = None
    verdict: CandidateVerdict
    duplicate_of: str | None = None


class ModelReceipt(DomainModel):
    """What the model cost."""

    name: str
    prompt_id: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    elapsed_ms: float = 0.0


class AttemptReceipt(DomainModel):
    """A model that was to choose, and why it did not; `cached` where its choice was known from before."""

    model: str
    reason: Reason | None = None
    elapsed_ms: float = 0.0
    cached: bool = False


class TurnOf(DomainModel):
    """What a turn is called: by whom it was asked for, in which session, with which id."""

    tenant: str
    session_id: str
    agent_id: str
    turn_id: str


class ReceiptPage(DomainModel):
    """Receipts, newest first; `end` says that there are no older ones listed."""

    receipts: "tuple[Receipt, ...]" = ()
    end: bool = True


class Receipt(DomainModel):
    """Enough to explain a request and to run it again; `chosen` are the ids of the block's memories in its order.

    `kept` says what the settings left of it: without texts it explains, and cannot be run again.

    `attempts` are the models that were asked, in order, `notes` what else there is to know of the choice.
    """

    id: str
    at: UtcTime
    kept: ReceiptKeep = ReceiptKeep.EVERYTHING
    request: InjectionRequest
    config: dict[str, object] = Field(default_factory=dict)
    config_version: str = ""
    query: str = ""
    recalls: tuple[str, ...] = ()
    outcome: Outcome
    reason: Reason | None = None
    engine: Engine = Engine.NONE
    degraded: bool = False
    considered: tuple[ConsideredMemory, ...] = ()
    chosen: tuple[str, ...] = ()
    block_id: str | None = None
    model: ModelReceipt | None = None
    attempts: tuple[AttemptReceipt, ...] = ()
    notes: tuple[str, ...] = ()
    stages: dict[str, float] = Field(default_factory=dict)
    elapsed_ms: float = 0.0


def turn_of(request: InjectionRequest) -> TurnOf:
    """The turn that a request belongs to."""
    return TurnOf(
        tenant=request.scope.tenant,
        session_id=request.session_id,
        agent_id=request.agent_id,
        turn_id=request.turn_id,
    )
