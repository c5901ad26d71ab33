"""Domain values: frozen, no I/O."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from hooks.contract import Engine, ItemSource, Key, Reason, RecentMessage, Scope, Text, UtcTime

from .kinds import Budget, SearchKind
from .model_calls import ModelAttempt, ModelUsage

Vector = tuple[float, ...]


class MemoryType(StrEnum):
    IDENTITY = "identity"
    GOAL = "goal"
    DECISION = "decision"
    TODO = "todo"
    PREFERENCE = "preference"
    FACT = "fact"
    EVENT = "event"
    OBSERVATION = "observation"
    MENTAL_MODEL = "mental_model"


class DomainModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


SUPERSEDING = frozenset({"updates", "supersedes"})
"""Kinds of relation whose target is out of date from then on."""


class Relation(DomainModel):
    """A directed link; `updates` and `supersedes` say that the target is out of date."""

    kind: Key
    target: Key


class MemoryScope(DomainModel):
    """Who may see a memory inside its tenant; `None` means everybody."""

    user: Text | None = None
    agent: Text | None = None
    project: Text | None = None


class Memory(DomainModel):
    """One thing worth remembering. `importance` is 0..1; `created_at` may be unknown."""

    id: Key
    type: MemoryType = MemoryType.FACT
    content: Text = Field(min_length=1)
    importance: float = Field(default=0.5, ge=0.0, le=1.0)
    created_at: UtcTime | None = None
    occurred_at: UtcTime | None = None
    valid_until: UtcTime | None = None
    superseded_by: Key | None = None
    superseded_at: UtcTime | None = None
    entities: tuple[Key, ...] = ()
    relations: tuple[Relation, ...] = ()
    scope: MemoryScope = MemoryScope()
    channel: Text | None = None
    source: Text | None = None
    version: int = Field(default=1, ge=1)

    @property
    def content_hash(self) -> str:
        """SHA-256 of the content, hexadecimal: says whether two memories read the same."""
        return hashlib.sha256(self.content.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Token ids with weights; ids are unique."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory with what search needs; `dense` is missing while no embedder is available."""

    memory: Memory
    dense: Vector | None
    sparse: SparseVector


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which memories of the tenant a request may see.

    `users`, `agents` and `projects` are the owners that may be seen besides "everybody". `valid_at` drops what is
    superseded or expired at that time, but leaves superseded ones if `superseded`, for what they lead to;
    `created_until` drops what is younger (replay only).
    """

    users: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    valid_at: datetime | None = None
    created_until: datetime | None = None
    superseded: bool = False


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """What a search is narrowed to, on top of what may be seen at all; `None` sees everything of the tenant.

    `user` narrows to what one user owns, `pointing_at` to what names one of these ids: as the target of a relation or
    as what it was superseded by. `entities` are whole names, `names` keys of `worker.text.names`. `since` and `until`
    match the time something was noted or happened; `importance` is the minimum.
    """

    visibility: Visibility | None = None
    types: tuple[MemoryType, ...] = ()
    entities: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    user: str | None = None
    pointing_at: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    other_than: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    importance: float | None = None


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """Both legs of one search; a missing leg is not run. `limit` bounds each leg."""

    dense: Vector | None
    sparse: SparseVector | None
    where: MemoryFilter
    limit: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory that search found, with raw scores: cosine -1..1 and BM25 >= 0, `None` where that leg missed it.

    `vector` is the stored dense vector (unit length) where there is one.
    """

    memory: Memory
    cosine: float | None
    keyword: float | None
    vector: Vector | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A slice of a listing; `cursor` continues it, `None` ends it."""

    memories: tuple[Memory, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Listed:
    """A memory of some tenant with the dense vector that is stored with it, where there is one and it was asked for."""

    tenant: str
    memory: Memory
    dense: Vector | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A slice of a whole store, every tenant in it; `unreadable` points are left out. `cursor` continues it."""

    entries: tuple[Listed, ...]
    cursor: str | None
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class StoreHealth:
    """What a store says of itself; `fault` is the reason why the dense leg must not be used.

    `bare` memories have no dense vector though the store has them otherwise.
    """

    engine: str
    points: int
    dense_usable: bool
    fault: str | None = None
    notes: tuple[str, ...] = ()
    bare: int = 0


@dataclass(frozen=True, slots=True)
class EmbedderProfile:
    """Identity of an embedder and the thresholds measured for it.

    `floor` is the cosine under which a memory is not relevant, `gate` the cosine that the best candidate reaches
    wherever any is relevant, `keyword` the keyword score, in units of the logarithm of the store's size, that does
    instead of either; `confident` is the relevance from which a memory may be injected without a model, `duplicate` the
    cosine from which two texts say the same.
    """

    name: str
    revision: str
    dimension: int
    candidate_threshold: float
    confident: float
    duplicate: float
    query_prefix: str = ""
    passage_prefix: str = ""
    keyword: float | None = None
    query_threshold: float | None = None

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits: vectors of different fingerprints must never meet."""
        parts = (self.name, self.revision, str(self.dimension), self.query_prefix, self.passage_prefix, "content")
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory in the running: its raw scores, and two made from them.

    `relevance` (0..1) is the weighted sum of both scores; it can be compared between queries, so thresholds are on it.
    `score` orders: relevance or rank fusion, and what importance, age, channel, time and links add to it.
    """

    memory: Memory
    cosine: float | None
    keyword: float | None
    relevance: float
    score: float
    vector: Vector | None = None
    source: ItemSource = ItemSource.CONTEXTUAL
    legs: tuple[SearchKind, ...] = ()


class CandidateVerdict(StrEnum):
    """What became of a candidate."""

    CHOSEN = "chosen"
    BELOW_THRESHOLD = "below_floor"
    SUPERSEDED = "superseded"
    NAMESAKE = "namesake"
    OVER_POOL = "over_pool"
    BELOW_CUT = "below_cut"
    ALREADY_SHOWN = "already_shown"
    DUPLICATE = "duplicate"
    NOT_SELECTED = "not_selected"
    OVER_ITEMS = "over_items"
    OVER_CHARS = "over_chars"
    OVER_TOKENS = "over_tokens"


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that is out, and why; `of` is the id of the memory that says the same or has replaced it."""

    candidate: Candidate
    verdict: CandidateVerdict
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """What one search brought: candidates best first, what was left out and why, which legs failed, and of how many
    memories the tenant has."""

    query: str
    candidates: tuple[Candidate, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    degraded: Reason | None = None
    size: int = 0


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """Arguments of a recall; there is no tenant, user or agent here, on purpose: scope comes from the request.

    `also` are further wordings of what is wanted, each searched for by itself. `history` wants what is out of date,
    too. `pinned` wants the memories of the pinned types besides; `budget` is the configured one where it is `None`.
    """

    query: str
    types: tuple[MemoryType, ...] = ()
    entities: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    channels: tuple[str, ...] = ()
    budget: Budget | None = None
    also: tuple[str, ...] = ()
    history: bool = False
    pinned: bool = False


RecallTool = Callable[[RecallQuery], Awaitable[Recalled]]


@dataclass(frozen=True, slots=True)
class Selection:
    """The memories worth injecting, most useful first; empty means that nothing is relevant.

    `probabilities` are those that a decision model gave, by id. `partial` says that the deadline came while the model
    was still answering, and this is what it had said. `attempts` are the models that were asked, `notes` what else
    the receipt is to say. `unsure` says whether a model is worth asking, where whoever chose can tell.
    """

    chosen: tuple[Candidate, ...]
    engine: Engine
    dropped: tuple[Dropped, ...] = ()
    recalls: tuple[str, ...] = ()
    prompt_id: str | None = None
    usage: ModelUsage | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    partial: bool = False
    attempts: tuple[ModelAttempt, ...] = ()
    notes: tuple[str, ...] = ()
    unsure: bool | None = None


@dataclass(frozen=True, slots=True)
class SelectionTask:
    """What a selector knows of the request: what is asked, and by whom, where and from which kind of source."""

    message: str
    task_description: str | None
    recent_messages: tuple[RecentMessage, ...]
    query: str
    now: datetime
    user: str | None = None
    channel: str | None = None
    source: str = "user"


def visible_to(scope: Scope, agent_id: str, shared_users: Sequence[str], now: datetime, replay: bool) -> Visibility:
    """The visibility of a request: its own user and the shared ones, its own agent and project."""
    users = tuple(dict.fromkeys([*([scope.user] if scope.user else []), *shared_users]))
    return Visibility(
        users=users,
        agents=tuple(dict.fromkeys([scope.agent or agent_id, agent_id])),
        projects=(scope.project,) if scope.project else (),
        valid_at=now,
        created_until=now if replay else None,
    )


def is_superseded(memory: Memory, now: datetime) -> bool:
    """Whether something else has taken a memory's place; one without a known time has been superseded for ever."""
    if memory.superseded_at is None:
        return memory.superseded_by is not None
    return memory.superseded_at <= now
