"""Values that the steps of one injection hand on."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from hooks.contract import Engine, InjectionRequest, Outcome, Reason
from worker.domain.deadline import Deadline
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, RecallQuery, Selection
from worker.domain.timings import Stages
from worker.settings.injection import InjectionConfig
from worker.text.rendering import RenderedMemory


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything that stays the same while one request is answered; `wanted` is what it recalls first."""

    request: InjectionRequest
    config: InjectionConfig
    query: str
    now: datetime
    deadline: Deadline
    stages: Stages
    receipt_id: str
    wanted: RecallQuery = field(default_factory=lambda: RecallQuery(""))


@dataclass(frozen=True, slots=True)
class CandidateOutcome:
    """What became of a candidate; `of` is the memory that says the same, where that is why it is out."""

    candidate: Candidate
    verdict: CandidateVerdict
    of: str | None = None


class CandidateOutcomes:
    """What became of every memory that was looked at; a later verdict replaces an earlier one."""

    def __init__(self) -> None:
        self._candidate_outcomes: dict[str, CandidateOutcome] = {}

    def drop(self, dropped: Iterable[Dropped]) -> None:
        for entry in dropped:
            self._candidate_outcomes[entry.candidate.memory.id] = CandidateOutcome(
                entry.candidate, entry.verdict, entry.of
            )

    def choose(self, chosen: Iterable[Candidate]) -> None:
        self._candidate_outcomes.update(
            {candidate.memory.id: CandidateOutcome(candidate, CandidateVerdict.CHOSEN) for candidate in chosen}
        )

    def candidate_outcomes(self) -> list[CandidateOutcome]:
        """Candidates with their fate, the best scores first."""
        return sorted(
            self._candidate_outcomes.values(),
            key=lambda candidate_outcome: (-candidate_outcome.candidate.score, candidate_outcome.candidate.memory.id),
        )


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a request comes to, before it is put into the words of the contract; `lines` and `chosen` go together."""

    outcome: Outcome
    reason: Reason | None
    degraded: bool = False
    engine: Engine = Engine.NONE
    lines: tuple[RenderedMemory, ...] = ()
    chosen: tuple[Candidate, ...] = ()
    selection: Selection | None = None
    candidate_outcomes: tuple[CandidateOutcome, ...] = ()
