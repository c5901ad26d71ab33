"""Log lines of an answer: one per injected memory at debug, a summary at info. They hold no texts."""

import structlog

from hooks.contract import InjectionResult, ItemSource
from worker.domain.memory import CandidateVerdict

from .turn import Conclusion

REPEATING = frozenset({CandidateVerdict.ALREADY_SHOWN, CandidateVerdict.DUPLICATE})

log = structlog.get_logger()


def log_answer(conclusion: Conclusion, result: InjectionResult) -> None:
    """Log what was injected, from which source, and how long it took."""
    for item in result.items:
        log.debug("memory_injected", id=item.id, type=item.type, source=item.source, score=item.score)
    pinned = sum(item.source is ItemSource.PINNED for item in result.items)
    log.info(
        "answered",
        outcome=result.outcome,
        reason=result.reason,
        engine=result.engine,
        pinned=pinned,
        contextual=len(result.items) - pinned,
        deduped=sum(one.verdict in REPEATING for one in conclusion.candidate_outcomes),
        total=len(result.items),
        elapsed_ms=result.elapsed_ms,
        receipt=result.receipt_id,
    )
