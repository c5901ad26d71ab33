"""Fit the relevance model to a team's own labels, and measure the fit on tasks that were left out. Pure.

Three numbers are fitted: the scale of the score, the weight of the task's own score, and a shift. A normal prior keeps
them near the shipped values, so that few labels do no harm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from worker.domain.errors import SettingsError
from worker.domain.kinds import RelevanceProfile
from worker.relevance.model import Adjustment, Scores, Threshold, probabilities

from .relevance_cases import RelevanceCase
from .relevance_measures import ChoiceEffect, Rated, loss, measured

LEAST_TASKS = 20
"""Minimum number of labelled tasks for a fit."""

LEAST_OF_EACH = 5
"""Minimum number of tasks with a relevant candidate, and of tasks without relevant memories."""

PARTS = 5
STEPS = 20
HALVINGS = 20

PRIOR = (1.0, 0.0, 0.0)
DOUBT = (0.2, 0.1, 1.0)
"""Standard deviations of the prior."""

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """A labelled task with the relevance model's scores, `None` if recall found nothing."""

    case: RelevanceCase
    scores: Scores | None

    def rated(self, change: Adjustment) -> Rated:
        """Return the probabilities of its candidates after a change."""
        return Rated(self.case, None if self.scores is None else probabilities(self.scores, change))


@dataclass(frozen=True, slots=True)
class RelevanceFit:
    """A change fitted to all tasks, and the effects before and after, cross-validated."""

    tasks: int
    change: Adjustment
    point: RelevanceProfile
    before: ChoiceEffect
    after: ChoiceEffect

    @property
    def helps(self) -> bool:
        """Return whether the fit lowers the loss on tasks that were left out."""
        return self.before.loss is not None and self.after.loss is not None and self.after.loss < self.before.loss


def fit_to(
    scored: Sequence[Scored], thresholds: Mapping[RelevanceProfile, Threshold], point: RelevanceProfile, most: int
) -> RelevanceFit:
    """Fit a change to the labels and measure its effect. Raise `SettingsError` if there are too few labels."""
    change = fit(scored)
    before, after = unseen_effects(scored, thresholds[point], most)
    return RelevanceFit(len(scored), change, point, before, after)


def fit(scored: Sequence[Scored]) -> Adjustment:
    """Fit a change to the labels. Raise `SettingsError` if there are too few."""
    if len(scored) < LEAST_TASKS:
        raise SettingsError(
            f"{len(scored)} labelled tasks are too few for a fit; label at least {LEAST_TASKS} receipts"
            " with `meeseeks eval label`"
        )
    having = sum(bool(one.rated(Adjustment()).relevant().any()) for one in scored if one.scores is not None)
    without = sum(not one.case.labels.relevant for one in scored)
    if min(having, without) < LEAST_OF_EACH:
        raise SettingsError(
            f"{having} labelled tasks find a relevant memory and {without} need none; a fit takes at least"
            f" {LEAST_OF_EACH} of each: label such receipts with `meeseeks eval label`"
        )
    return _fitted(scored)


def _fitted(scored: Sequence[Scored]) -> Adjustment:
    """Return the most likely change by Newton's method, or the shipped values without scores."""
    known = [(one.scores, one.rated(Adjustment()).relevant()) for one in scored if one.scores is not None]
    found = np.array(PRIOR)
    if known:
        design = np.concatenate([_design(scores) for scores, _ in known])
        wanted = np.concatenate([relevant for _, relevant in known]).astype(np.float64)
        for _ in range(STEPS):
            found = _newton_step(design, wanted, found)
    return Adjustment(scale=float(found[0]), head=float(found[1]), shift=float(found[2]))


def _newton_step(design: Matrix, wanted: Matrix, found: Matrix) -> Matrix:
    """Take one step, halved until the negative log likelihood does not increase."""
    chance = np.exp(-np.logaddexp(0.0, -(design @ found)))
    doubt = np.diag(1.0 / np.square(DOUBT))
    slope = design.T @ (wanted - chance) - doubt @ (found - np.array(PRIOR))
    step = np.linalg.solve(design.T @ (design * (chance * (1.0 - chance))[:, None]) + doubt, slope)
    before = _negative_log_likelihood(design, wanted, found)
    for size in 0.5 ** np.arange(HALVINGS):
        if _negative_log_likelihood(design, wanted, found + size * step) <= before:
            return np.asarray(found + size * step)
    return found


def _negative_log_likelihood(design: Matrix, wanted: Matrix, found: Matrix) -> float:
    """Return it for labels and prior, without the constant."""
    odds = design @ found
    apart = (found - np.array(PRIOR)) / np.array(DOUBT)
    return float(np.logaddexp(0.0, odds).sum() - wanted @ odds + 0.5 * apart @ apart)


def _design(scores: Scores) -> Matrix:
    number = len(scores.items)
    return np.stack([scores.items.astype(np.float64), np.full(number, scores.head), np.ones(number)], axis=1)


def unseen_effects(scored: Sequence[Scored], threshold: Threshold, most: int) -> tuple[ChoiceEffect, ChoiceEffect]:
    """Measure selections before and after a fit, by cross-validation over `PARTS` parts."""
    before = [Adjustment()] * len(scored)
    after = list(before)
    for part in range(PARTS):
        change = _fitted([one for place, one in enumerate(scored) if place % PARTS != part])
        for place in range(part, len(scored), PARTS):
            after[place] = change
    return effect(scored, before, threshold, most), effect(scored, after, threshold, most)


def effect(scored: Sequence[Scored], changes: Sequence[Adjustment], threshold: Threshold, most: int) -> ChoiceEffect:
    """Measure a threshold, applying to each task its own change."""
    rated = [one.rated(change) for one, change in zip(scored, changes, strict=True)]
    return replace(measured(rated, threshold, most), loss=loss(rated))
