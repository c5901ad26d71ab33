"""Values that the steps of one injection pass on, and the first step: read the request."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from hooks.contract import BlockFormat, Engine, InjectionRequest, Outcome, Reason, Retention
from worker.domain.deadline import Deadline
from worker.domain.ledger import LedgerEntry, LedgerKey, turn_key_of
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Memory, RecallQuery, Selection, SelectionTask
from worker.domain.timings import Stages
from worker.domain.zones import seen_in, zone_of
from worker.query.focus import focus
from worker.recall.searches import first_query
from worker.settings.injection import InjectionConfig
from worker.text.excerpts import says_more
from worker.text.rendering import RenderedMemory, attributed, shown_text


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything that stays the same while one request is answered.

    `query` is its first recall. `now` is in the request's time zone. `notes` on the request go into the receipt.
    """

    request: InjectionRequest
    config: InjectionConfig
    query: RecallQuery
    now: datetime
    deadline: Deadline
    stages: Stages
    receipt_id: str
    notes: tuple[str, ...] = ()

    @property
    def ledger_key(self) -> LedgerKey:
        return LedgerKey(self.request.scope.tenant, self.request.session_id, self.request.agent_id)

    @property
    def turn_key(self) -> str:
        request = self.request
        return turn_key_of(request.turn_id, request.message, request.scope.model_dump_json())

    @property
    def style(self) -> BlockFormat:
        """The format of the block."""
        return self.request.render.format or self.config.format

    @property
    def retention(self) -> Retention:
        return effective_retention(self.request, self.config.max_injected_blocks_in_history)

    @property
    def task(self) -> SelectionTask:
        """What selectors are told about the request."""
        request = self.request
        return SelectionTask(
            message=request.message,
            task_description=request.task_description,
            recent_messages=request.recent_messages,
            query=self.query.query,
            now=self.now,
            user=request.scope.user,
            channel=request.scope.channel,
            source=request.source,
        )


def effective_retention(request: InjectionRequest, history_cap: int) -> Retention:
    """Return how long the caller keeps the block: for one turn if the history may hold no blocks."""
    if history_cap == 0 and request.retention is Retention.HISTORY:
        return Retention.EPHEMERAL
    return request.retention


def read_turn(
    request: InjectionRequest,
    config: InjectionConfig,
    now: datetime,
    deadline: Deadline,
    receipt_id: str,
    stages: Stages,
) -> Turn:
    """Return the turn that `request` begins, with the query for its first recall."""
    with stages("query"):
        query = first_query(request, focus(request, config), config)
    notes: tuple[str, ...] = ()
    try:
        zone = zone_of(request.tz or config.time_zone)
    except ValueError as error:
        zone = zone_of(config.time_zone)
        notes = (f"tz: {error}; {config.time_zone} was used",)
    local, until = seen_in(now, zone), deadline.within(config.deadline_ms / 1000)
    return Turn(request, config, query, local, until, stages, receipt_id, notes)


def text_of(memory: Memory, turn: Turn) -> str:
    """Return a memory's text as this turn shows it."""
    config, query = turn.config, turn.query.query
    text = shown_text(memory.content, config.max_item_chars, mask=config.mask_secrets, query=query)
    return attributed(text, memory.scope.user, turn.request.scope.user)


def tells_more(memory: Memory, entry: LedgerEntry, turn: Turn) -> bool:
    """Return whether this turn's part of a long memory says more of what is asked than the part that was shown."""
    if len(memory.content) <= turn.config.max_item_chars or not entry.text:
        return False
    return says_more(text_of(memory, turn), entry.text, turn.query.query)


@dataclass(frozen=True, slots=True)
class CandidateOutcome:
    """What became of a candidate; `of` is the memory that it duplicates, if that is why it was dropped."""

    candidate: Candidate
    verdict: CandidateVerdict
    of: str | None = None


def outcomes_of(dropped: Iterable[Dropped], chosen: Iterable[Candidate]) -> tuple[CandidateOutcome, ...]:
    """Return one outcome per memory, best scores first; later drops replace earlier ones, and a choice wins."""
    found = {one.candidate.memory.id: CandidateOutcome(one.candidate, one.verdict, one.of) for one in dropped}
    found |= {one.memory.id: CandidateOutcome(one, CandidateVerdict.CHOSEN) for one in chosen}
    return tuple(sorted(found.values(), key=lambda one: (-one.candidate.score, one.candidate.memory.id)))


def limited(config: InjectionConfig, request: InjectionRequest) -> InjectionConfig:
    """Return the settings with the request's own limit of memories."""
    most = request.render.max_items
    if most is None:
        return config
    return config.model_copy(update={name: min(most, getattr(config, name)) for name in ("max_items", "max_total")})


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a request comes to, before it becomes a result; `lines` and `chosen` go together."""

    outcome: Outcome
    reason: Reason | None
    degraded: bool = False
    engine: Engine = Engine.NONE
    lines: tuple[RenderedMemory, ...] = ()
    chosen: tuple[Candidate, ...] = ()
    selection: Selection | None = None
    candidate_outcomes: tuple[CandidateOutcome, ...] = ()
