"""The receipt of one request: its candidates, what was chosen and why, and how long it took."""

import re
from collections.abc import Set as AbstractSet
from datetime import datetime

from pydantic import Field, ValidationError
from pydantic_core import to_json

from hooks.contract import Engine, InjectionRequest, ItemSource, Outcome, Reason, UtcTime

from .kinds import ReceiptKeep, SearchKind
from .memory import CandidateVerdict, DomainModel, MemoryType
from .model_calls import ModelAttempt, ModelExchange

_IDS = re.compile(rb'"id":("(?:[^"\\]|\\.)*")')
"""Ids in a stored receipt, as JSON."""


class ConsideredMemory(DomainModel):
    """One candidate and its outcome; `text` is the text the block would show.

    Thresholds apply to `relevance`. `legs` are the searches that found it, `probability` comes from the relevance or
    decision model. `duplicate_of` is the id of the duplicate or successor it was dropped for. Of a memory with cues,
    `cosine` is that of text and cues together, `own_cosine` that of its text, `cue_cosine` that of the nearest cue, and
    `cues_near` counts the near ones. `cue` is the nearest one, if it is nearer than the text. A memory that was
    `deleted` since has neither text nor cue.
    """

    id: str
    type: MemoryType
    text: str
    version: int
    created_at: datetime | None = None
    cosine: float | None = None
    keyword: float | None = None
    relevance: float | None = None
    own_cosine: float | None = None
    cue_cosine: float | None = None
    cue: str | None = None
    cues_near: int = 0
    score: float
    source: ItemSource = ItemSource.CONTEXTUAL
    legs: tuple[SearchKind, ...] = ()
    probability: float | None = None
    verdict: CandidateVerdict
    duplicate_of: str | None = None
    deleted: bool = False


class ModelReceipt(DomainModel):
    """Model usage of the request."""

    name: str
    prompt_id: str | None = None
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: float | None = None
    elapsed_ms: float = 0.0


class TurnOf(DomainModel):
    """Identify a turn: tenant, session, agent and turn id."""

    tenant: str
    session_id: str
    agent_id: str
    turn_id: str


class ReceiptPage(DomainModel):
    """Receipts, newest first; `end` marks the last page."""

    receipts: "tuple[Receipt, ...]" = ()
    end: bool = True


class Receipt(DomainModel):
    """The data to explain a request and to replay it; a receipt without texts (`kept`) cannot be replayed.

    `chosen` are the ids of the block's memories, in its order. `required` is the least probability that the relevance
    model accepted, if it decided. `attempts` are the models asked, in order. `block` is the block as it was sent, and
    `began_ms` when each of the `stages` first began. `exchanges` are the texts of model calls, if they are kept.
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
    required: float | None = None
    considered: tuple[ConsideredMemory, ...] = ()
    chosen: tuple[str, ...] = ()
    block_id: str | None = None
    block: str | None = None
    model: ModelReceipt | None = None
    attempts: tuple[ModelAttempt, ...] = ()
    notes: tuple[str, ...] = ()
    exchanges: tuple[ModelExchange, ...] = ()
    stages: dict[str, float] = Field(default_factory=dict)
    began_ms: dict[str, float] = Field(default_factory=dict)
    elapsed_ms: float = 0.0


def without_texts_of(receipt: Receipt, gone: AbstractSet[str]) -> Receipt:
    """Return a receipt without texts and cues of deleted memories, and without what else shows one. Pure."""
    considered = tuple(
        one.model_copy(update={"text": "", "cue": None, "deleted": True}) if one.id in gone else one
        for one in receipt.considered
    )
    block = receipt.block if gone.isdisjoint(receipt.chosen) else None
    exchanges = receipt.exchanges if gone.isdisjoint(one.id for one in receipt.considered) else ()
    return receipt.model_copy(update={"considered": considered, "block": block, "exchanges": exchanges})


def erased_json(stored: bytes, gone: AbstractSet[str]) -> str | None:
    """Return a stored receipt without texts of deleted memories; `None` if it has none, or cannot be read. Pure."""
    if {to_json(one) for one in gone}.isdisjoint(_IDS.findall(stored)):  # most receipts need not be parsed
        return None
    try:
        receipt = Receipt.model_validate_json(stored)
    except ValidationError:
        return None
    erased = without_texts_of(receipt, gone)
    return None if erased == receipt else erased.model_dump_json()


def turn_of(request: InjectionRequest) -> TurnOf:
    """Return the turn of a request."""
    return TurnOf(
        tenant=request.scope.tenant,
        session_id=request.session_id,
        agent_id=request.agent_id,
        turn_id=request.turn_id,
    )
