"""Measure ways to rate candidates on labelled tasks: the relevance model and the search's own scores. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from worker.domain.memory import Candidate
from worker.relevance.columns import Column
from worker.relevance.model import Threshold, in_order

from .relevance_cases import RelevanceCase


class Rater(StrEnum):
    """A way to rate candidates; `FUSION` is the weighted sum of semantic and keyword search."""

    RELEVANCE_MODEL = "relevance model"
    FUSION = "weighted fusion"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True)
class Rated:
    """A labelled task and its candidates' ratings (higher is better), `None` if recall found nothing."""

    case: RelevanceCase
    values: Column | None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.case.inputs.candidates if self.case.inputs else ()

    @property
    def best(self) -> float:
        """Return the highest value, minus infinity without candidates."""
        return -math.inf if self.values is None else float(self.values.max(initial=-np.inf))

    def relevant(self) -> npt.NDArray[np.bool_]:
        """Return for each candidate whether it is relevant."""
        return np.array([one.memory.id in self.case.labels.relevant for one in self.candidates], dtype=bool)


@dataclass(frozen=True, slots=True)
class ChoiceEffect:
    """Measures of a choice: shares from 0 to 1 (see `docs/relevance-model.md`), `None` if nothing counts for them.

    `loss` is the mean negative log likelihood of the labels, for raters that give probabilities.
    """

    precision: float | None
    recall: float | None
    clean: float | None
    forbidden: float
    items: float
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class RaterScore:
    """Measures of one rater: AUROC over candidates (relevant or not), AUROC over tasks (with relevant memories or
    without), and the effect of its threshold."""

    candidates: float | None
    tasks: float | None
    threshold: Threshold
    effect: ChoiceEffect


def rater_scores(inputs: Sequence[Rated], threshold: Threshold, most: int) -> Mapping[Rater, RaterScore]:
    """Measure the relevance model and the search's scores on the same candidates.

    The threshold of a search score is the lowest that keeps as many turns clean as the model does. It is fitted to
    these very tasks, which favours the search scores.
    """
    found = {Rater.RELEVANCE_MODEL: _score(inputs, threshold, most)}
    clean = found[Rater.RELEVANCE_MODEL].effect.clean
    for rater in (Rater.FUSION, Rater.COSINE):
        rated = [Rated(one.case, values_of(one, rater)) for one in inputs]
        found[rater] = _score(rated, as_clean(rated, 1.0 if clean is None else clean), most)
    return found


def _score(rated: Sequence[Rated], threshold: Threshold, most: int) -> RaterScore:
    pairs = [(one.relevant(), one.values) for one in rated if one.values is not None]
    flags = np.concatenate([flag for flag, _ in pairs]) if pairs else np.zeros(0, dtype=bool)
    values = np.concatenate([value for _, value in pairs]) if pairs else np.zeros(0)
    needs = np.array([bool(one.case.labels.relevant) for one in rated])
    best = np.array([one.best for one in rated])
    return RaterScore(auroc(flags, values), auroc(needs, best), threshold, measured(rated, threshold, most))


def values_of(one: Rated, rater: Rater) -> Column | None:
    """Return how a search rates the candidates."""
    if one.values is None:
        return None
    found = [one.relevance if rater is Rater.FUSION else one.cosine or 0.0 for one in one.candidates]
    return np.array(found, dtype=np.float32)


def as_clean(rated: Sequence[Rated], clean: float) -> Threshold:
    """Return the lowest threshold that leaves a share `clean` of the tasks without relevant memories empty."""
    best = np.sort(np.array([one.best for one in rated if not one.case.labels.relevant], dtype=np.float32))
    place = round(clean * len(best)) - 1
    opens = float(np.nextafter(best[place] if place >= 0 else np.float32(-np.inf), np.float32(np.inf)))
    return Threshold(opens, opens)


def auroc(wanted: npt.NDArray[np.bool_], values: npt.NDArray[np.floating]) -> float | None:
    """Return the area under the ROC curve, ties counting half; `None` without values of both kinds."""
    good, other = int(wanted.sum()), int((~wanted).sum())
    return round(share_of_pairs(wanted, values), 4) if good and other else None


def share_of_pairs(wanted: npt.NDArray[np.bool_], values: npt.NDArray[np.floating]) -> float:
    """Return the unrounded AUROC; there must be values of both kinds."""
    _, place, number = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(number) - (number - 1) / 2.0)[place]
    good = int(wanted.sum())
    return float((rank[wanted].sum() - good * (good + 1) / 2.0) / (good * (len(wanted) - good)))


def measured(rated: Sequence[Rated], threshold: Threshold, most: int) -> ChoiceEffect:
    """Measure what a threshold chooses, at most `most` memories per task."""
    totals = np.zeros(7)
    for one in rated:
        totals += _counts(one, threshold, most)
    injected, good, found, essential, clean, empty, harmed = totals.tolist()
    return ChoiceEffect(
        precision=_share(good, injected),
        recall=_share(found, essential),
        clean=_share(clean, empty),
        forbidden=round(harmed / max(1, len(rated)), 4),
        items=round(injected / max(1, len(rated)), 4),
    )


def _counts(one: Rated, threshold: Threshold, most: int) -> npt.NDArray[np.float64]:
    """Count: injected, relevant among them, essential found, essential, clean, without relevant, with forbidden."""
    labels, chosen = one.case.labels, set[str]()
    if one.values is not None:
        ranked = in_order(one.candidates, one.values)
        kept = ranked.candidates[: min(most, ranked.passing(threshold))]
        chosen = {candidate.memory.id for candidate in kept}
    empty = not labels.relevant
    return np.array(
        [
            len(chosen),
            len(chosen & labels.relevant),
            len(chosen & labels.essential),
            len(labels.essential),
            empty and not chosen,
            empty,
            bool(chosen & labels.forbidden),
        ],
        dtype=np.float64,
    )


def loss(rated: Sequence[Rated]) -> float | None:
    """Return the mean negative log likelihood of the labels; values must be probabilities."""
    right = [np.where(one.relevant(), one.values, 1.0 - one.values) for one in rated if one.values is not None]
    if not right:
        return None
    return round(float(-np.log(np.maximum(np.concatenate(right), 1e-6)).mean()), 5)


def _share(number: float, of: float) -> float | None:
    return round(number / of, 4) if of else None
