"""From a choice to an answer and its receipt. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hooks.blocks import block_id
from hooks.contract import Engine, InjectedItem, InjectionRequest, InjectionResult, ItemSource, Outcome, Reason

from .budget import fit
from .deadline import Deadline
from .models import Candidate, Dropped, ModelUsage, Selection, Verdict
from .receipt import ConsideredMemory, ModelReceipt, Receipt
from .render import Line, block, body, measure, shown_text
from .settings import InjectionConfig
from .stages import Stages


@dataclass(frozen=True, slots=True)
class Turn:
    """Everything that stays the same while one request is answered."""

    request: InjectionRequest
    config: InjectionConfig
    query: str
    now: datetime
    deadline: Deadline
    stages: Stages
    receipt_id: str


class Verdicts:
    """What became of every memory that was looked at; a later verdict replaces an earlier one."""

    def __init__(self) -> None:
        self._fates: dict[str, tuple[Candidate, Verdict]] = {}

    def drop(self, dropped: Iterable[Dropped]) -> None:
        self._fates.update({entry.candidate.memory.id: (entry.candidate, entry.verdict) for entry in dropped})

    def choose(self, chosen: Iterable[Candidate]) -> None:
        self._fates.update({candidate.memory.id: (candidate, Verdict.CHOSEN) for candidate in chosen})

    def fates(self) -> list[tuple[Candidate, Verdict]]:
        """Candidates with their fate, the best scores first."""
        return sorted(self._fates.values(), key=lambda fate: (-fate[0].score, fate[0].memory.id))


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a request comes to, before it is put into the words of the contract."""

    outcome: Outcome
    reason: Reason | None
    degraded: bool = False
    engine: Engine = Engine.NONE
    lines: tuple[Line, ...] = ()
    scores: Mapping[str, float] | None = None
    selection: Selection | None = None
    fates: tuple[tuple[Candidate, Verdict], ...] = ()


def conclude_selection(turn: Turn, selection: Selection, verdicts: Verdicts, failure: Reason | None) -> Conclusion:
    """Fit the choice into the budget and say what came of it; `failure` is why the answer is degraded."""
    verdicts.drop(selection.dropped)
    verdicts.choose(selection.chosen)
    kept, over = fit(
        selection.chosen,
        [_line(candidate, turn.config) for candidate in selection.chosen],
        max_items=min(turn.config.max_items, turn.config.max_total),
        max_chars=min(turn.config.max_chars, turn.request.render.max_chars or turn.config.max_chars),
        measure=measure(turn.request.render.format),
    )
    verdicts.drop(over)
    outcome, reason = (Outcome.INJECTED, None) if kept else empty_outcome(verdicts)
    return Conclusion(
        outcome=outcome,
        reason=failure or reason,
        degraded=failure is not None,
        engine=selection.engine,
        lines=tuple(kept),
        scores={candidate.memory.id: candidate.score for candidate in selection.chosen},
        selection=selection,
        fates=tuple(verdicts.fates()),
    )


def conclude_empty(verdicts: Verdicts, failure: Reason | None) -> Conclusion:
    """There was nothing to choose from."""
    outcome, reason = empty_outcome(verdicts)
    return Conclusion(outcome, failure or reason, degraded=failure is not None, fates=tuple(verdicts.fates()))


def empty_outcome(verdicts: Verdicts) -> tuple[Outcome, Reason]:
    """Why a block is empty: what became of the best of the memories that were candidates at all."""
    fates = [verdict for _, verdict in verdicts.fates()]
    running = [verdict for verdict in fates if verdict is not Verdict.BELOW_FLOOR]
    if not running:
        return Outcome.NONE_RELEVANT, Reason.BELOW_FLOOR if fates else Reason.NOTHING_RECALLED
    if Verdict.OVER_CHARS in running:
        return Outcome.NONE_RELEVANT, Reason.OVER_BUDGET
    if running[0] is Verdict.ALREADY_SHOWN:
        return Outcome.ALL_DUPLICATE, Reason.ALREADY_SHOWN
    return Outcome.NONE_RELEVANT, Reason.NOTHING_SELECTED


def _line(candidate: Candidate, config: InjectionConfig) -> Line:
    memory = candidate.memory
    text = shown_text(memory.content, config.max_item_chars, mask=config.mask_secrets)
    return Line(memory, text, ItemSource.CONTEXTUAL)


def result_of(turn: Turn, conclusion: Conclusion) -> InjectionResult:
    """The answer in the words of the contract."""
    style = turn.request.render.format
    whole = block(conclusion.lines, style)
    return InjectionResult(
        outcome=conclusion.outcome,
        reason=conclusion.reason,
        engine=conclusion.engine,
        degraded=conclusion.degraded,
        memory_context=whole,
        text=body(conclusion.lines, style) if whole else None,
        block_id=block_id(whole) if whole else None,
        items=_items(conclusion.lines, conclusion.scores or {}),
        turn_id=turn.request.turn_id,
        receipt_id=turn.receipt_id,
        elapsed_ms=turn.stages.elapsed_ms,
        stages=turn.stages.as_dict(),
    )


def _items(lines: Sequence[Line], scores: Mapping[str, float]) -> tuple[InjectedItem, ...]:
    return tuple(
        InjectedItem(
            id=line.memory.id,
            type=line.memory.type,
            text=line.text,
            created_at=line.memory.created_at,
            occurred_at=line.memory.occurred_at,
            source=line.source,
            score=scores.get(line.memory.id),
        )
        for line in lines
    )


def receipt_of(turn: Turn, conclusion: Conclusion, result: InjectionResult) -> Receipt:
    """Everything that is needed to explain the answer and to run the request again."""
    selection = conclusion.selection
    return Receipt(
        id=turn.receipt_id,
        at=turn.now,
        request=turn.request,
        config=turn.config.model_dump(mode="json"),
        config_version=turn.config.version,
        query=turn.query,
        recalls=selection.recalls if selection else (),
        outcome=result.outcome,
        reason=result.reason,
        engine=result.engine,
        degraded=result.degraded,
        considered=tuple(_considered(candidate, verdict, turn.config) for candidate, verdict in conclusion.fates),
        block_id=result.block_id,
        model=_model_receipt(selection.usage, selection.prompt_id) if selection and selection.usage else None,
        stages=result.stages,
        elapsed_ms=result.elapsed_ms,
    )


def _considered(candidate: Candidate, verdict: Verdict, config: InjectionConfig) -> ConsideredMemory:
    memory = candidate.memory
    return ConsideredMemory(
        id=memory.id,
        type=memory.type,
        text=shown_text(memory.content, config.max_item_chars, mask=config.mask_secrets),
        version=memory.version,
        created_at=memory.created_at,
        cosine=candidate.cosine,
        keyword=candidate.keyword,
        score=candidate.score,
        verdict=verdict,
    )


def _model_receipt(usage: ModelUsage, prompt_id: str | None) -> ModelReceipt:
    return ModelReceipt(
        name=usage.model,
        prompt_id=prompt_id,
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        cost=usage.cost,
        elapsed_ms=usage.elapsed_ms,
    )
