"""Memories, searches and selections."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from hooks.contract import Engine, ItemSource, Key, Name, Reason, RecentMessage, Text, UtcTime, refuse_bool_as_number

from .cues import CueMatch, Cues, CueVectors
from .evidence import Evidence
from .kinds import Budget, SearchKind
from .model_calls import ModelAttempt, ModelExchange, ModelUsage
from .zones import is_within

if TYPE_CHECKING:  # programs that only send requests do not load NumPy
    import numpy as np

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

    _numbers = field_validator("*", mode="before")(refuse_bool_as_number)


MEMORIES_CACHED = 8_192
"""Memories of which a process caches what it parsed and computed, some eight kilobytes each."""

SUPERSEDES = "supersedes"
SUPERSEDING = frozenset({"updates", SUPERSEDES})
"""Relation kinds that mark their target as outdated."""


class Relation(DomainModel):
    """A directed link to another memory; `updates` and `supersedes` mark the target as outdated."""

    kind: Key
    target: Key


class MemoryScope(DomainModel):
    """Who may see a memory within its tenant; `None` means everyone."""

    user: Name | None = None
    agent: Name | None = None
    project: Name | None = None


class Memory(DomainModel):
    """One memory; `importance` is 0 to 1, `created_at` may be unknown. Only searches read its headings and `cues`.

    `evidence` is what was said, of a memory that was captured from a conversation. A `pinned` memory is injected
    whatever the message is.
    """

    id: Key
    type: MemoryType = MemoryType.FACT
    content: Text = Field(min_length=1)
    context: Text | None = None
    importance: float = Field(default=0.5, ge=0.0, le=1.0)
    created_at: UtcTime | None = None
    occurred_at: UtcTime | None = None
    valid_until: UtcTime | None = None
    superseded_by: Key | None = None
    superseded_at: UtcTime | None = None
    entities: tuple[Key, ...] = ()
    relations: tuple[Relation, ...] = ()
    scope: MemoryScope = MemoryScope()
    channel: Name | None = None
    source: Text | None = None
    version: int = Field(default=1, ge=1)
    cues: Cues = ()
    evidence: Evidence | None = None
    pinned: bool = False

    @property
    def room(self) -> str | None:
        """Return the channel that the memory belongs to, `None` if it belongs to a user or was said in no channel."""
        return self.channel if self.scope.user is None else None


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Unique token ids and their weights."""

    indices: tuple[int, ...] = ()
    values: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A memory with its search vectors: `dense` of its text alone, `None` without embedder, and those of its cues."""

    memory: Memory
    dense: Vector | None
    sparse: SparseVector
    cues: CueVectors | None = None


@dataclass(frozen=True, slots=True)
class StoredState:
    """What a store holds under an id; `memory` is `None` if it cannot be read.

    `revision` is opaque and differs after every change of what is stored.
    """

    memory: Memory | None
    revision: str


@dataclass(frozen=True, slots=True)
class Replacement:
    """A write that happens only if the stored revision is still `expected`; `None` means that nothing is stored.

    A `Memory` keeps the stored vectors, a `StoredMemory` replaces them.
    """

    new: Memory | StoredMemory
    expected: str | None

    @property
    def memory(self) -> Memory:
        return self.new.memory if isinstance(self.new, StoredMemory) else self.new


@dataclass(frozen=True, slots=True)
class Visibility:
    """The memories of its tenant that a request may see.

    `users`, `agents` and `projects` are the visible owners besides "everyone". Of the memories that a channel has
    and no user, those of `channels` are visible, `None` for all. `valid_at` excludes memories expired or superseded at
    that time; `superseded` keeps the superseded ones. `created_until` excludes newer memories (for
    replays).
    """

    users: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    channels: tuple[str, ...] | None = None
    valid_at: datetime | None = None
    created_until: datetime | None = None
    superseded: bool = False
    importance: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryFilter:
    """Search filters; without `visibility`, every memory of the tenant is visible. `importance` is the minimum.

    With `pinned`, only memories that are pinned themselves match.
    `user`, `agent` and `project` own it; `pointing_at` matches memories with a relation to one of these or superseded
    by one; `entities` are whole names, `names` keys of `worker.text.names`; `since` and `until` match creation or
    occurrence as seen in `zone`; stores may also return memories at most a day outside of them. `created_from` and
    `created_until` match only creation, exactly; what was created at an unknown time counts as created at
    `datetime.min`.
    """

    visibility: Visibility | None = None
    types: tuple[MemoryType, ...] = ()
    entities: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    user: str | None = None
    agent: str | None = None
    project: str | None = None
    pointing_at: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    other_than: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    importance: float | None = None
    pinned: bool = False
    zone: tzinfo = UTC
    created_from: datetime | None = None
    created_until: datetime | None = None

    def has_time_of(self, memory: Memory) -> bool:
        """Return whether the memory was noted or happened between `since` and `until`."""
        moments = [moment for moment in (memory.created_at, memory.occurred_at) if moment is not None]
        return is_within(moments, self.since, self.until, self.zone)


@dataclass(frozen=True, slots=True)
class HybridQuery:
    """A dense and a keyword search, either of which may be `None`; `limit` applies to each."""

    dense: Vector | None
    sparse: SparseVector | None
    where: MemoryFilter
    limit: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A memory found by a search, with raw scores: cosine -1 to 1 and BM25 >= 0, `None` if that search missed it.

    `cosine` is that of text and cues together. `vector` is the stored dense vector of the text alone (unit length), if
    any, `cue_rows` that vector and those of its cues and pieces, packed.
    """

    memory: Memory
    cosine: float | None
    keyword: float | None
    vector: "np.ndarray[Any, np.dtype[np.float32]] | None" = field(default=None, compare=False)
    cue_rows: bytes = b""


@dataclass(frozen=True, slots=True)
class EmbedderProfile:
    """An embedder's identity and thresholds; the default thresholds suit models that nobody measured.

    A candidate needs a cosine of at least `candidate_threshold`. If no candidate reaches `query_threshold`, none is
    relevant. A keyword score of `keyword` (in units of the logarithm of the store's size) passes both thresholds.
    Without a model, a memory is injected from a relevance of `confident`. Texts with a cosine of at least `duplicate`
    are duplicates.
    """

    name: str
    revision: str
    dimension: int
    candidate_threshold: float = 0.25
    confident: float = 0.70
    duplicate: float = 0.97
    query_prefix: str = ""
    passage_prefix: str = ""
    keyword: float | None = None
    query_threshold: float | None = None

    @property
    def fingerprint(self) -> str:
        """Return twelve hexadecimal digits; never compare vectors with different fingerprints."""
        parts = (self.name, self.revision, str(self.dimension), self.query_prefix, self.passage_prefix, "content")
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A memory considered for injection, with its scores.

    `relevance` (0 to 1) is the weighted sum of both raw scores; it is comparable between queries, so thresholds apply
    to it. `score` is for ranking: relevance or rank fusion, plus importance, age, channel, time and links. `cosine` is
    that of text and cues together; `cues` compares them one by one, `None` without cues or vectors.
    """

    memory: Memory
    cosine: float | None
    keyword: float | None
    relevance: float
    score: float
    vector: "np.ndarray[Any, np.dtype[np.float32]] | None" = field(default=None, compare=False)
    source: ItemSource = ItemSource.CONTEXTUAL
    legs: tuple[SearchKind, ...] = ()
    cues: CueMatch | None = None

    @property
    def own_cosine(self) -> float | None:
        """Return the cosine of the memory's own text."""
        return self.cosine if self.cues is None else self.cues.own_cosine


class CandidateVerdict(StrEnum):
    """The outcome for a candidate."""

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
    """A dropped candidate and the reason; `of` is the id of its duplicate or successor."""

    candidate: Candidate
    verdict: CandidateVerdict
    of: str | None = None


@dataclass(frozen=True, slots=True)
class Recalled:
    """The result of a recall: candidates, best first, and dropped ones; `size` is the number of the tenant's memories.

    `degraded` says why a search failed. `ignored` are filters that were not understood.
    """

    query: str
    candidates: tuple[Candidate, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    degraded: Reason | None = None
    size: int = 0
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecallQuery:
    """Arguments of a recall; tenant, user and agent come from the request.

    `time` is a time in words; it counts if `since` and `until` are open and it is understood. `also` are alternative
    wordings, each searched separately. `history` includes outdated memories, `pinned` the
    pinned memories and those of pinned types. Without `budget`, the configured one applies.
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
    time: str | None = None


RecallTool = Callable[[RecallQuery], Awaitable[Recalled]]


@dataclass(frozen=True, slots=True)
class Selection:
    """The memories worth injecting, most useful first; empty if none is relevant.

    `probabilities` come from a decision model, by memory id. `partial` marks an answer cut off by the deadline.
    `required` is the least probability that the relevance model accepted: of the best memory if that one was too
    improbable, else of each. `attempts` are the models asked, `notes` go into the receipt, and
    `exchanges`, too, if they are to be kept. `unsure` says whether asking
    a model may help, `None` if unknown. `failure` is why a simpler selector chose than the one that should have.
    """

    chosen: tuple[Candidate, ...]
    engine: Engine
    dropped: tuple[Dropped, ...] = ()
    recalls: tuple[str, ...] = ()
    prompt_id: str | None = None
    usage: ModelUsage | None = None
    probabilities: Mapping[str, float] = field(default_factory=dict)
    required: float | None = None
    partial: bool = False
    attempts: tuple[ModelAttempt, ...] = ()
    notes: tuple[str, ...] = ()
    exchanges: tuple[ModelExchange, ...] = ()
    unsure: bool | None = None
    failure: Reason | None = None


@dataclass(frozen=True, slots=True)
class SelectionTask:
    """The parts of a request that a selector uses."""

    message: str
    task_description: str | None
    recent_messages: tuple[RecentMessage, ...]
    query: str
    now: datetime
    user: str | None = None
    channel: str | None = None
    source: str = "user"


def is_superseded(memory: Memory, now: datetime) -> bool:
    """Return whether the memory was superseded by `now`; without a known time, it always was."""
    if memory.superseded_at is None:
        return memory.superseded_by is not None
    return memory.superseded_at <= now
