"""From a choice to an answer and its receipt. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from hooks.blocks import block_id
from hooks.contract import (
    BlockFormat,
    Engine,
    InjectedItem,
    InjectionRequest,
    InjectionResult,
    ItemSource,
    Outcome,
    Reason,
    Retention,
)

from .budget import Limits, fit
from .deadline import Deadline
from .dedup import compact
from .ledger import LedgerEntry
from .model_calls import ModelAttempt, ModelUsage
from .models import Candidate, Dropped, RecallQuery, Selection, Verdict
from .ranking import is_superseded
from .receipt import AttemptReceipt, ConsideredMemory, ModelReceipt, Receipt
from .redaction import kept
from .render import Line, block, body, shown_text
from .settings import InjectionConfig
from .stages import Stages


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
class Fate:
    """What became of a candidate; `of` is the memory that says the same, where that is why it is out."""

    candidate: Candidate
    verdict: Verdict
    of: str | None = None


class Verdicts:
    """What became of every memory that was looked at; a later verdict replaces an earlier one."""

    def __init__(self) -> None:
        self._fates: dict[str, Fate] = {}

    def drop(self, dropped: Iterable[Dropped]) -> None:
        for entry in dropped:
            self._fates[entry.candidate.memory.id] = Fate(entry.candidate, entry.verdict, entry.of)

    def choose(self, chosen: Iterable[Candidate]) -> None:
        self._fates.update({candidate.memory.id: Fate(candidate, Verdict.CHOSEN) for candidate in chosen})

    def fates(self) -> list[Fate]:
        """Candidates with their fate, the best scores first."""
        return sorted(self._fates.values(), key=lambda fate: (-fate.candidate.score, fate.candidate.memory.id))


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What a request comes to, before it is put into the words of the contract; `lines` and `chosen` go together."""

    outcome: Outcome
    reason: Reason | None
    degraded: bool = False
    engine: Engine = Engine.NONE
    lines: tuple[Line, ...] = ()
    chosen: tuple[Candidate, ...] = ()
    selection: Selection | None = None
    fates: tuple[Fate, ...] = ()


def conclude_selection(turn: Turn, selection: Selection, verdicts: Verdicts, failure: Reason | None) -> Conclusion:
    """Fit the choice into the budget and say what came of it; `failure` is why the answer is degraded."""
    verdicts.drop(selection.dropped)
    verdicts.choose(selection.chosen)
    style = turn.request.render.format
    chosen = _in_order(selection.chosen, style)
    fitted = fit(chosen, [_line(candidate, turn) for candidate in chosen], _limits(turn), style)
    verdicts.drop(fitted.dropped)
    outcome, reason = (Outcome.INJECTED, None) if fitted.lines else empty_outcome(verdicts)
    by_id = {candidate.memory.id: candidate for candidate in chosen}
    return Conclusion(
        outcome=outcome,
        reason=failure or reason,
        degraded=failure is not None,
        engine=selection.engine,
        lines=fitted.lines,
        chosen=tuple(by_id[line.memory.id] for line in fitted.lines),
        selection=selection,
        fates=tuple(verdicts.fates()),
    )


def _in_order(chosen: Sequence[Candidate], style: BlockFormat) -> tuple[Candidate, ...]:
    """The order of the block: as chosen, what was found for this message before what is pinned.

    With sections it is the other way round: there the titles say what is what.
    """
    first = ItemSource.PINNED if style is BlockFormat.SECTIONS else ItemSource.CONTEXTUAL
    return tuple(sorted(chosen, key=lambda candidate: candidate.source is not first))


def _limits(turn: Turn) -> Limits:
    config, asked = turn.config, turn.request.render
    tokens = [limit for limit in (config.max_tokens, asked.max_tokens) if limit is not None]
    return Limits(
        contextual=config.max_items,
        total=config.max_total,
        chars=min(config.max_chars, asked.max_chars or config.max_chars),
        tokens=min(tokens, default=None),
    )


def conclude_empty(verdicts: Verdicts, failure: Reason | None) -> Conclusion:
    """There was nothing to choose from."""
    outcome, reason = empty_outcome(verdicts)
    return Conclusion(outcome, failure or reason, degraded=failure is not None, fates=tuple(verdicts.fates()))


def empty_outcome(verdicts: Verdicts) -> tuple[Outcome, Reason]:
    """Why a block is empty: what became of the best of the memories that were candidates at all."""
    fates = [fate.verdict for fate in verdicts.fates()]
    running = [verdict for verdict in fates if verdict is not Verdict.BELOW_FLOOR]
    if not running:
        return Outcome.NONE_RELEVANT, Reason.BELOW_FLOOR if fates else Reason.NOTHING_RECALLED
    if Verdict.OVER_CHARS in running or Verdict.OVER_TOKENS in running:
        return Outcome.NONE_RELEVANT, Reason.OVER_BUDGET
    if running[0] is Verdict.ALREADY_SHOWN:
        return Outcome.ALL_DUPLICATE, Reason.ALREADY_SHOWN
    return Outcome.NONE_RELEVANT, Reason.NOTHING_SELECTED


def _line(candidate: Candidate, turn: Turn) -> Line:
    memory, config = candidate.memory, turn.config
    text = shown_text(memory.content, config.max_item_chars, mask=config.mask_secrets)
    return Line(memory, text, candidate.source, outdated=is_superseded(memory, turn.now))


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
        items=_items(conclusion),
        turn_id=turn.request.turn_id,
        receipt_id=turn.receipt_id,
        history_cap=turn.config.max_injected_blocks_in_history,
        elapsed_ms=turn.stages.elapsed_ms,
        stages=turn.stages.as_dict(),
    )


def shown_by(turn: Turn, conclusion: Conclusion, number: int, block: str) -> dict[str, LedgerEntry]:
    """What the ledger is to count as shown once `block` is delivered; an ephemeral one is gone after its turn."""
    if turn.request.retention is Retention.EPHEMERAL:
        return {}
    return {
        line.memory.id: LedgerEntry(
            version=line.memory.version,
            turn=number,
            block_id=block,
            text=line.text,
            vector=compact(candidate.vector),
            lasting=turn.request.retention is Retention.SYSTEM,
        )
        for line, candidate in zip(conclusion.lines, conclusion.chosen, strict=True)
    }


def _items(conclusion: Conclusion) -> tuple[InjectedItem, ...]:
    return tuple(
        InjectedItem(
            id=line.memory.id,
            type=line.memory.type,
            text=line.text,
            created_at=line.memory.created_at,
            occurred_at=line.memory.occurred_at,
            source=line.source,
            score=candidate.score,
        )
        for line, candidate in zip(conclusion.lines, conclusion.chosen, strict=True)
    )


def receipt_of(turn: Turn, conclusion: Conclusion, result: InjectionResult) -> Receipt:
    """Everything that is needed to explain the answer and to run the request again, as far as it is to be kept."""
    selection = conclusion.selection
    probabilities = selection.probabilities if selection else {}
    whole = Receipt(
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
        considered=tuple(_considered(fate, turn.config, probabilities) for fate in conclusion.fates),
        chosen=tuple(line.memory.id for line in conclusion.lines),
        block_id=result.block_id,
        model=_model_receipt(selection.usage, selection.prompt_id) if selection and selection.usage else None,
        attempts=tuple(map(_attempt, selection.attempts)) if selection else (),
        notes=selection.notes if selection else (),
        stages=result.stages,
        elapsed_ms=result.elapsed_ms,
    )
    return kept(whole, turn.config.receipt_keep)


def _attempt(attempt: ModelAttempt) -> AttemptReceipt:
    return AttemptReceipt(
        model=attempt.model, reason=attempt.reason, elapsed_ms=attempt.elapsed_ms, cached=attempt.cached
    )


def _considered(fate: Fate, config: InjectionConfig, probabilities: Mapping[str, float]) -> ConsideredMemory:
    candidate, memory = fate.candidate, fate.candidate.memory
    return ConsideredMemory(
        id=memory.id,
        type=memory.type,
        text=shown_text(memory.content, config.max_item_chars, mask=config.mask_secrets),
        version=memory.version,
        created_at=memory.created_at,
        cosine=candidate.cosine,
        keyword=candidate.keyword,
        relevance=candidate.relevance,
        score=candidate.score,
        source=candidate.source,
        legs=candidate.legs,
        probability=probabilities.get(memory.id),
        verdict=fate.verdict,
        duplicate_of=fate.of,
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
