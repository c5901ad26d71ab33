"""Fit the scale of a decision model's probabilities to labels. Pure.

This is Platt scaling: p = 1 / (1 + exp(-(slope * logit(raw) + intercept))), fitted as in Lin, Lin and Weng, "A note on
Platt's probabilistic outputs for support vector machines" (Machine Learning 68, 2007).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from worker.domain.errors import SettingsError
from worker.triage.decision_scale import DecisionScale, logit, sigmoid

CLEAN = 0.97
"""Target share of tasks without relevant memories for which the fitted threshold selects nothing."""

LEAST_LABELS = 20
"""Minimum number of relevant answers, and of other answers, for a fit."""

_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Answered:
    """One answer: its task, raw probability and label."""

    task: str
    raw: float
    relevant: bool


@dataclass(frozen=True, slots=True)
class ScaleEffect:
    """The effect of a scale on labelled answers: shares from 0 to 1, `None` if nothing counts for them.

    `log_loss` is in nats per answer; lower is better calibrated.
    """

    precision: float | None
    recall: float | None
    clean: float | None
    log_loss: float


def fitted(answers: Sequence[Answered]) -> DecisionScale:
    """Fit a scale to the labels. Raise `SettingsError` if there are too few of either kind."""
    positive = sum(answer.relevant for answer in answers)
    if min(positive, len(answers) - positive) < LEAST_LABELS:
        raise SettingsError(
            f"{positive} relevant and {len(answers) - positive} other answers are too few for a fit; label at least"
            f" {LEAST_LABELS} of each"
        )
    slope, intercept = _platt(answers)
    scale = DecisionScale(round(slope, 6), round(intercept, 6))
    return DecisionScale(scale.slope, scale.intercept, _threshold(scale, answers))


def _platt(answers: Sequence[Answered]) -> tuple[float, float]:
    """Minimise the cross entropy by Newton's method; smoothed targets keep the minimum finite."""
    positive = sum(answer.relevant for answer in answers)
    high, low = (positive + 1.0) / (positive + 2.0), 1.0 / (len(answers) - positive + 2.0)
    points = [(logit(answer.raw), high if answer.relevant else low) for answer in answers]
    slope, intercept = 0.0, math.log((positive + 1.0) / (len(answers) - positive + 1.0))
    for _ in range(_ROUNDS):
        step_slope, step_intercept = _newton_step(points, slope, intercept)
        size = _step_size(points, (slope, intercept), (step_slope, step_intercept))
        slope, intercept = slope - size * step_slope, intercept - size * step_intercept
        if size * max(abs(step_slope), abs(step_intercept)) < 1e-9:
            break
    return max(slope, 0.0), intercept


def _newton_step(points: Sequence[tuple[float, float]], slope: float, intercept: float) -> tuple[float, float]:
    """Return the inverse Hessian times the gradient; a small ridge keeps the Hessian invertible."""
    by_slope = by_intercept = mixed = 0.0
    first = second = 1e-9
    for x, target in points:
        p = sigmoid(slope * x + intercept)
        weight, error = p * (1.0 - p), p - target
        by_slope += error * x
        by_intercept += error
        first += weight * x * x
        second += weight
        mixed += weight * x
    determinant = first * second - mixed * mixed
    if determinant < 1e-12:
        return 0.0, by_intercept / second
    return (
        (second * by_slope - mixed * by_intercept) / determinant,
        (first * by_intercept - mixed * by_slope) / determinant,
    )


def _step_size(points: Sequence[tuple[float, float]], at: tuple[float, float], step: tuple[float, float]) -> float:
    """Halve the step until it does not increase the loss; return its share."""
    size, before = 1.0, _loss(points, *at)
    while size > 1e-8 and _loss(points, at[0] - size * step[0], at[1] - size * step[1]) > before:
        size /= 2.0
    return size


def _loss(points: Sequence[tuple[float, float]], slope: float, intercept: float) -> float:
    return sum(_softplus(slope * x + intercept) - target * (slope * x + intercept) for x, target in points)


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


def _threshold(scale: DecisionScale, answers: Sequence[Answered]) -> float:
    """Return the lowest threshold that reaches `CLEAN`, or the best F1 if every task has any."""
    best = _best_of_clean_tasks(scale, answers)
    if best:
        worst = best[min(math.ceil(CLEAN * len(best)), len(best)) - 1]
        return min((math.floor(worst * 1e4) + 1) / 1e4, 1.0)
    values = sorted({scale.calibrated(answer.raw) for answer in answers})
    return math.floor(max(values, key=lambda value: (_f1(scale, answers, value), value)) * 1e4) / 1e4


def _best_of_clean_tasks(scale: DecisionScale, answers: Sequence[Answered]) -> list[float]:
    """Return the highest probability in each task without relevant memories, ascending."""
    with_any = {answer.task for answer in answers if answer.relevant}
    best: dict[str, float] = {}
    for answer in answers:
        if answer.task not in with_any:
            best[answer.task] = max(best.get(answer.task, 0.0), scale.calibrated(answer.raw))
    return sorted(best.values())


def _f1(scale: DecisionScale, answers: Sequence[Answered], threshold: float) -> float:
    kept = [answer for answer in answers if scale.calibrated(answer.raw) >= threshold]
    right = sum(answer.relevant for answer in kept)
    return 2.0 * right / (len(kept) + sum(answer.relevant for answer in answers))


def effect_of(scale: DecisionScale, answers: Sequence[Answered]) -> ScaleEffect:
    """Measure `scale` on these answers."""
    kept = [answer for answer in answers if scale.calibrated(answer.raw) >= scale.threshold]
    right, relevant = sum(answer.relevant for answer in kept), sum(answer.relevant for answer in answers)
    best = _best_of_clean_tasks(scale, answers)
    points = [(logit(answer.raw), float(answer.relevant)) for answer in answers]
    return ScaleEffect(
        precision=_share(right, len(kept)),
        recall=_share(right, relevant),
        clean=_share(sum(value < scale.threshold for value in best), len(best)),
        log_loss=round(_loss(points, scale.slope, scale.intercept) / max(len(points), 1), 4),
    )


def _share(number: int, of: int) -> float | None:
    return round(number / of, 4) if of else None
