"""What a team's own labels change of the model, measured on tasks that were not fitted, and the file that keeps it.

Three numbers are fitted: how steep the score is, how much the task's own score counts besides, and a shift. They are
held near what ships (a normal prior), so that thirty labelled tasks help and five do no harm. Pure, but for the file.
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
"""Labelled tasks under which nothing is fitted."""

LEAST_OF_EACH = 5
"""Tasks with a relevant memory among their candidates, and tasks without relevant memories, that there must be."""

PARTS = 5
STEPS = 20
HALVINGS = 20

PRIOR = (1.0, 0.0, 0.0)
DOUBT = (0.2, 0.1, 1.0)
"""Standard deviations of the prior."""

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """A labelled task with the relevance model's scores, `None` where nothing was found for it."""

    case: RelevanceCase
    scores: Scores | None

    def rated(self, change: Adjustment) -> Rated:
        """The probabilities of its candidates."""
        return Rated(self.case, None if self.scores is None else probabilities(self.scores, change))


@dataclass(frozen=True, slots=True)
class RelevanceFit:
    """What was fitted to all the tasks, and what fitting to a part of them does to the others, before and after."""

    tasks: int
    change: Adjustment
    point: RelevanceProfile
    before: ChoiceEffect
    after: ChoiceEffect

    @property
    def helps(self) -> bool:
        """Whether the labels of tasks that were left out are likelier with it."""
        return self.before.loss is not None and self.after.loss is not None and self.after.loss < self.before.loss


def fit_to(
    scored: Sequence[Scored], thresholds: Mapping[RelevanceProfile, Threshold], point: RelevanceProfile, most: int
) -> RelevanceFit:
    """The change that these labels ask for and its effect. Raises `SettingsError` saying which labels are too few."""
    change = fit(scored)
    before, after = unseen_effects(scored, thresholds[point], most)
    return RelevanceFit(len(scored), change, point, before, after)


def fit(scored: Sequence[Scored]) -> Adjustment:
    """The change that the labels of these tasks ask for. Raises `SettingsError` for too few tasks."""
    _check(scored)
    return _fitted(scored)


def _check(scored: Sequence[Scored]) -> None:
    if len(scored) < LEAST_TASKS:
        raise SettingsError(
            f"{len(scored)} labelled tasks are too few to fit the model to; it takes {LEAST_TASKS}: label more receipts"
            " with `meeseeks label`"
        )
    having = sum(bool(one.rated(Adjustment()).relevant().any()) for one in scored if one.scores is not None)
    without = sum(not one.case.labels.relevant for one in scored)
    if min(having, without) < LEAST_OF_EACH:
        raise SettingsError(
            f"{having} labelled tasks find a relevant memory and {without} want none; to fit the model it takes"
            f" {LEAST_OF_EACH} of each: label such receipts with `meeseeks label`"
        )


def _fitted(scored: Sequence[Scored]) -> Adjustment:
    """The most likely change, by Newton's method with steps that never make it less likely; what ships without any."""
    known = [(one.scores, one.rated(Adjustment()).relevant()) for one in scored if one.scores is not None]
    found = np.array(PRIOR)
    if known:
        design = np.concatenate([_design(scores) for scores, _ in known])
        wanted = np.concatenate([relevant for _, relevant in known]).astype(np.float64)
        for _ in range(STEPS):
            found = _better(design, wanted, found)
    return Adjustment(scale=float(found[0]), head=float(found[1]), shift=float(found[2]))


def _better(design: Matrix, wanted: Matrix, found: Matrix) -> Matrix:
    """One step of Newton's, halved until the labels and the prior are no less likely than before."""
    chance = np.exp(-np.logaddexp(0.0, -(design @ found)))
    doubt = np.diag(1.0 / np.square(DOUBT))
    slope = design.T @ (wanted - chance) - doubt @ (found - np.array(PRIOR))
    step = np.linalg.solve(design.T @ (design * (chance * (1.0 - chance))[:, None]) + doubt, slope)
    before = _unlikelihood(design, wanted, found)
    for halved in 0.5 ** np.arange(HALVINGS):
        if _unlikelihood(design, wanted, found + halved * step) <= before:
            return np.asarray(found + halved * step)
    return found


def _unlikelihood(design: Matrix, wanted: Matrix, found: Matrix) -> float:
    """The negative logarithm of the likelihood of labels and change, but for a constant."""
    odds = design @ found
    apart = (found - np.array(PRIOR)) / np.array(DOUBT)
    return float(np.logaddexp(0.0, odds).sum() - wanted @ odds + 0.5 * apart @ apart)


def _design(scores: Scores) -> Matrix:
    number = len(scores.items)
    return np.stack([scores.items.astype(np.float64), np.full(number, scores.head), np.ones(number)], axis=1)


def unseen_effects(scored: Sequence[Scored], threshold: Threshold, most: int) -> tuple[ChoiceEffect, ChoiceEffect]:
    """What is chosen before, and after fitting to the other parts of the tasks: nothing is measured where it was
    fitted."""
    before = [Adjustment()] * len(scored)
    after = list(before)
    for part in range(PARTS):
        change = _fitted([one for place, one in enumerate(scored) if place % PARTS != part])
        for place in range(part, len(scored), PARTS):
            after[place] = change
    return effect(scored, before, threshold, most), effect(scored, after, threshold, most)


def effect(scored: Sequence[Scored], changes: Sequence[Adjustment], threshold: Threshold, most: int) -> ChoiceEffect:
    """What a threshold chooses for each task with its change."""
    rated = [one.rated(change) for one, change in zip(scored, changes, strict=True)]
    return replace(measured(rated, threshold, most), loss=loss(rated))
