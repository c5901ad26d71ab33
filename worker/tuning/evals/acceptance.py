"""Decide whether a prompt may replace another: as good on every measure, and better on at least one. Pure.

Decisions use intervals. A quality measure is as good if its whole interval is above a small allowed loss; a time,
unless its whole interval is below. "Better" is a whole interval above zero. Times never count as better, because the
two evaluations ran at different moments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from .comparison import Difference, Direction, EvaluationComparison
from .measures import NEUTRAL, QUANTILES, Measure

ALLOWED: Mapping[Measure, float] = {
    Measure.PRECISION: 0.02,
    Measure.RECALL: 0.02,
    Measure.CLEAN: 0.01,
    Measure.FORBIDDEN: 0.005,
    Measure.FALLBACK: 0.02,
}
"""Loss of a rate that still counts as good."""

ALLOWED_SHARE = 0.2
"""Share by which a time, tokens or a cost may grow and still count as good."""

ALLOWED_MS = 250.0
"""Further allowed growth of a time: two identical runs differ by this much on a busy machine."""


class MeasureComparison(StrEnum):
    """How the new prompt compares with the old one on a measure."""

    BETTER = "better"
    AS_GOOD = "as good"
    UNPROVEN = "not shown to be as good"
    WORSE = "worse"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result for one measure; `allowed` is the loss that still counts as good."""

    difference: Difference
    standing: MeasureComparison
    allowed: float


@dataclass(frozen=True, slots=True)
class AcceptanceResult:
    """Whether a prompt passes; `reasons` says why not and is empty if it does."""

    findings: tuple[Finding, ...]
    reasons: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return not self.reasons


def accept(found: EvaluationComparison) -> AcceptanceResult:
    """Decide whether the later evaluation passes against the earlier one."""
    findings = tuple(_finding(one) for one in found.differences if one.measure not in NEUTRAL)
    reasons = [
        f"{one.difference.measure.value}: {one.standing.value}"
        for one in findings
        if one.standing in (MeasureComparison.UNPROVEN, MeasureComparison.WORSE)
    ]
    if not any(one.standing is MeasureComparison.BETTER for one in findings):
        reasons.append("no measure is better")
    if found.only_before or found.only_after:
        reasons.append("the two were not evaluated on the same tasks")
    return AcceptanceResult(findings, tuple(reasons))


def _finding(one: Difference) -> Finding:
    share = ALLOWED_SHARE * abs(one.before)
    allowed = share + ALLOWED_MS if one.measure in QUANTILES else ALLOWED.get(one.measure, share)
    return Finding(one, _standing(one, allowed), allowed)


def _standing(one: Difference, allowed: float) -> MeasureComparison:
    _, low, high = one.gain
    if one.measure in QUANTILES:
        return MeasureComparison.WORSE if high < -allowed else MeasureComparison.AS_GOOD
    if one.direction is Direction.BETTER:
        return MeasureComparison.BETTER
    if one.direction is Direction.SAME or low >= -allowed:
        return MeasureComparison.AS_GOOD
    return MeasureComparison.WORSE if high < -allowed else MeasureComparison.UNPROVEN
