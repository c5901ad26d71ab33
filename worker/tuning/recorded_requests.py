"""For how many of the tasks that were recorded the judge finds something to inject; it takes no labels. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hooks.contract import Engine, ItemSource
from worker.domain.kinds import RelevanceProfile
from worker.domain.memory import CandidateVerdict
from worker.domain.receipt import ConsideredMemory, Receipt
from worker.relevance.model import Threshold

LEAST_TASKS = 20
"""Recorded tasks under which a share says nothing."""

FOR_THE_JUDGE = frozenset(
    {CandidateVerdict.CHOSEN, CandidateVerdict.OVER_ITEMS, CandidateVerdict.BELOW_CUT, CandidateVerdict.NOT_SELECTED}
)
"""Fates of what whoever chooses has seen."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """`tasks` that the judge was asked about, or that found nothing to ask it about; `opened` is by point the share of
    them, 0 to 1, for which the likeliest memory was likely enough, `None` for fewer tasks than say anything."""

    tasks: int
    opened: Mapping[RelevanceProfile, float] | None


def recorded(receipts: Sequence[Receipt], thresholds: Mapping[RelevanceProfile, Threshold]) -> Recorded:
    """What receipts tell of the judge as it was when they were written."""
    best = [value for value in map(_best, receipts) if value is not None]
    if len(best) < LEAST_TASKS:
        return Recorded(len(best), None)
    shares = {
        point: round(sum(value >= threshold.opens for value in best) / len(best), 4)
        for point, threshold in thresholds.items()
    }
    return Recorded(len(best), shares)


def _best(receipt: Receipt) -> float | None:
    """The highest probability, 0 where there was nothing to judge; `None` where the judge was not asked."""
    seen = [one for one in receipt.considered if _is_for_the_judge(one)]
    if not seen:
        return 0.0
    known = [one.probability for one in seen if one.probability is not None]
    return max(known) if known and receipt.engine is not Engine.DECISION else None


def _is_for_the_judge(one: ConsideredMemory) -> bool:
    return one.source is ItemSource.CONTEXTUAL and one.verdict in FOR_THE_JUDGE
