"""Whether a prompt may take the place of another: as good on every measure, and better on one. Pure.

What counts is intervals, not points. A measure of quality is as good when its whole interval is above a small loss that
is allowed; a time, as long as its interval is not wholly below. "Better" is a whole interval above nothing; for times
that does not count, since the two were not measured in the same minutes.
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
"""Loss of a rate that still is as good."""

ALLOWED_SHARE = 0.2
"""Share by which a time, tokens or a cost may grow and still be as good."""

ALLOWED_MS = 250.0
"""A time may grow by so much besides: so far apart are two runs of the same on a machine with other things to do."""


class MeasureComparison(StrEnum):
    """How a measure of the new prompt stands to the old one's."""

    BETTER = "better"
    AS_GOOD = "as good"
    UNPROVEN = "not shown to be as good"
    WORSE = "worse"


@dataclass(frozen=True, slots=True)
class Finding:
    """A measure, and how it stands; `allowed` is the loss that still is as good."""

    difference: Difference
    standing: MeasureComparison
    allowed: float


@dataclass(frozen=True, slots=True)
class AcceptanceResult:
    """What the gate says; `reasons` are why not, empty where the prompt may pass."""

    findings: tuple[Finding, ...]
    reasons: tuple[str, ...]

    @property
    def passes(self) -> bool:
        return not self.reasons


def accept(found: EvaluationComparison) -> AcceptanceResult:
    """The verdict on what comes after, against what is before."""
    findings = tuple(_finding(one) for one in found.differences if one.measure not in NEUTRAL)
    reasons = [
        f"{one.difference.measure.value}: {one.standing.value}"
        for one in findings
        if one.standing in (MeasureComparison.UNPROVEN, MeasureComparison.WORSE)
    ]
    if not any(one.standing is MeasureComparison.BETTER for one in findings):
        reasons.append("no measure is shown to be better")
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
