"""The receipt of one request: what was considered, chosen and dropped, why, and how long it took."""

from datetime import datetime

from pydantic import Field

from hooks.contract import Engine, InjectionRequest, ItemSource, Outcome, Reason, UtcTime

from .kinds import Leg
from .models import DomainModel, MemoryType, Verdict


class ConsideredMemory(DomainModel):
    """One candidate and its fate; `text` is as the block would show it.

    `relevance` is what thresholds are on, `legs` the ways in which it was found, `probability` what a decision model
    gave it. `duplicate_of` is the id of the memory that says the same or has replaced it, where that is why it is out.
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
    legs: tuple[Leg, ...] = ()
    probability: float | None = None
    verdict: Verdict
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


class Receipt(DomainModel):
    """Enough to explain a request and to run it again; `chosen` are the ids of the block's memories in its order.

    `attempts` are the models that were asked, in order, `notes` what else there is to know of the choice.
    """

    id: str
    at: UtcTime
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
