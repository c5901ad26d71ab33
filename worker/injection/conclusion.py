"""Turn a selection into the result of a request. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC

from hooks.contract import BlockFormat, InjectedItem, InjectionResult, ItemSource, Outcome, Reason, Retention
from hooks.contract.blocks import block_id, nonce_of, own_key
from worker.domain.ledger import LedgerEntry, LedgerView
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Selection, is_superseded
from worker.text.excerpts import tail
from worker.text.rendering import RenderedMemory, block, body

from .budget import BlockLimits, fit
from .duplicates import compact
from .turn import CandidateOutcome, Conclusion, Turn, outcomes_of, text_of

MOST_SHOWN_CHARS = 4_000
"""Characters of the parts of a memory that a session is known to have been shown."""


def conclude_selection(
    turn: Turn, selection: Selection, dropped: Iterable[Dropped], failure: Reason | None
) -> Conclusion:
    """Fit the choice into the budget; `failure` is why the answer is degraded."""
    style = turn.style
    chosen = _in_order(selection.chosen, style)
    fitted = fit(chosen, [_line(candidate, turn) for candidate in chosen], _limits(turn), style)
    by_id = {candidate.memory.id: candidate for candidate in chosen}
    included = tuple(by_id[line.memory.id] for line in fitted.lines)
    outcomes = outcomes_of((*dropped, *selection.dropped, *fitted.dropped), included)
    outcome, reason = (Outcome.INJECTED, None) if fitted.lines else empty_outcome(outcomes)
    return Conclusion(
        outcome=outcome,
        reason=failure or reason,
        degraded=failure is not None,
        engine=selection.engine,
        lines=fitted.lines,
        chosen=included,
        selection=selection,
        candidate_outcomes=outcomes,
    )


def without_taken(turn: Turn, conclusion: Conclusion, taken: frozenset[str]) -> Conclusion:
    """Return the conclusion without memories that parallel turns of the session show."""
    if conclusion.selection is None:
        return conclusion
    chosen = conclusion.selection.chosen
    left = tuple(candidate for candidate in chosen if candidate.memory.id not in taken)
    dropped = [Dropped(one, CandidateVerdict.ALREADY_SHOWN) for one in chosen if one.memory.id in taken]
    earlier = [
        Dropped(one.candidate, one.verdict, one.of)
        for one in conclusion.candidate_outcomes
        if one.verdict is not CandidateVerdict.CHOSEN
    ]
    selection = replace(conclusion.selection, chosen=left)
    return conclude_selection(turn, selection, (*earlier, *dropped), conclusion.reason if conclusion.degraded else None)


def _in_order(chosen: Sequence[Candidate], style: BlockFormat) -> tuple[Candidate, ...]:
    """Put found memories before pinned ones; in the sections format, pinned ones first."""
    first = ItemSource.PINNED if style is BlockFormat.SECTIONS else ItemSource.CONTEXTUAL
    return tuple(sorted(chosen, key=lambda candidate: candidate.source is not first))


def _limits(turn: Turn) -> BlockLimits:
    config, asked = turn.config, turn.request.render
    tokens = [limit for limit in (config.max_tokens, asked.max_tokens) if limit is not None]
    return BlockLimits(
        contextual=config.max_items,
        total=config.max_total,
        chars=min(config.max_chars, asked.max_chars or config.max_chars),
        tokens=min(tokens, default=None),
    )


def conclude_empty(dropped: Iterable[Dropped], failure: Reason | None) -> Conclusion:
    """Return the conclusion of a turn without candidates."""
    outcomes = outcomes_of(dropped, ())
    outcome, reason = empty_outcome(outcomes)
    return Conclusion(outcome, failure or reason, degraded=failure is not None, candidate_outcomes=outcomes)


def empty_outcome(outcomes: Sequence[CandidateOutcome]) -> tuple[Outcome, Reason]:
    """Return why a block is empty: what became of the best memories that passed the search thresholds."""
    verdicts = [one.verdict for one in outcomes]
    running = [verdict for verdict in verdicts if verdict is not CandidateVerdict.BELOW_THRESHOLD]
    if not running:
        return Outcome.NONE_RELEVANT, Reason.BELOW_THRESHOLD if verdicts else Reason.NOTHING_RECALLED
    if CandidateVerdict.OVER_CHARS in running or CandidateVerdict.OVER_TOKENS in running:
        return Outcome.NONE_RELEVANT, Reason.OVER_BUDGET
    if running[0] is CandidateVerdict.ALREADY_SHOWN:
        return Outcome.ALL_DUPLICATE, Reason.ALREADY_SHOWN
    return Outcome.NONE_RELEVANT, Reason.NOTHING_SELECTED


def _line(candidate: Candidate, turn: Turn) -> RenderedMemory:
    memory = candidate.memory
    outdated = is_superseded(memory, turn.now)
    return RenderedMemory(memory, text_of(memory, turn), candidate.source, outdated, turn.now.tzinfo or UTC)


def result_of(turn: Turn, conclusion: Conclusion) -> InjectionResult:
    """Return the result that the client receives."""
    style = turn.style
    whole = block(conclusion.lines, style, nonce_of(turn.receipt_id))
    return InjectionResult(
        outcome=conclusion.outcome,
        reason=conclusion.reason,
        engine=conclusion.engine,
        degraded=conclusion.degraded,
        memory_context=whole,
        text=body(conclusion.lines, style) if whole else None,
        block_id=block_id(whole) if whole else None,
        block_key=own_key() if whole else None,
        items=_items(conclusion),
        turn_id=turn.request.turn_id,
        receipt_id=turn.receipt_id,
        history_cap=turn.config.max_injected_blocks_in_history,
        filtered=sum(one.verdict is CandidateVerdict.ALREADY_SHOWN for one in conclusion.candidate_outcomes),
        elapsed_ms=turn.stages.elapsed_ms,
        stages=turn.stages.as_dict(),
    )


def shown_by(turn: Turn, conclusion: Conclusion, view: LedgerView, block: str) -> dict[str, LedgerEntry]:
    """Return the ledger entries to record once `block` is delivered; none for an ephemeral block.

    Of a long memory that was shown in part before, they keep the earlier parts, too.
    """
    if turn.retention is Retention.EPHEMERAL:
        return {}
    return {
        line.memory.id: LedgerEntry(
            version=line.memory.version,
            turn=view.turn,
            block_id=block,
            text=_shown_of(line, view.shown.get(line.memory.id)),
            vector=compact(candidate.vector),
            lasting=turn.retention is Retention.SYSTEM,
        )
        for line, candidate in zip(conclusion.lines, conclusion.chosen, strict=True)
    }


def _shown_of(line: RenderedMemory, before: LedgerEntry | None) -> str:
    if before is None or before.version < line.memory.version or before.text == line.text:
        return line.text
    return tail(f"{before.text}\n{line.text}", MOST_SHOWN_CHARS)


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
