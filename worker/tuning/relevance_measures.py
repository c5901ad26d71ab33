"""What a way to rate candidates is worth on labelled tasks, and the model beside the scores of the search. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from worker.domain.memory import Candidate
from worker.relevance.features import Column
from worker.relevance.model import Threshold, in_order

from .relevance_cases import RelevanceCase


class Rater(StrEnum):
    """By what candidates are rated: the model's probability, the search's weighted sum of both legs, its cosine."""

    RELEVANCE_MODEL = "relevance model"
    FUSION = "weighted fusion"
    COSINE = "cosine"


@dataclass(frozen=True, slots=True)
class Rated:
    """A labelled task and the value of each candidate, the higher the better; `None` where nothing was found."""

    case: RelevanceCase
    values: Column | None

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.case.inputs.candidates if self.case.inputs else ()

    @property
    def best(self) -> float:
        """The highest value; minus infinity where nothing was found."""
        return -math.inf if self.values is None else float(self.values.max(initial=-np.inf))

    def relevant(self) -> npt.NDArray[np.bool_]:
        """By candidate whether it is relevant."""
        return np.array([one.memory.id in self.case.labels.relevant for one in self.candidates], dtype=bool)


@dataclass(frozen=True, slots=True)
class ChoiceEffect:
    """What is chosen, in shares of 0 to 1 (see `docs/relevance-model.md`), `None` where there is nothing to count.

    `loss` is the mean negative log likelihood of the labels, where what was rated are probabilities.
    """

    precision: float | None
    recall: float | None
    clean: float | None
    forbidden: float
    items: float
    loss: float | None = None


@dataclass(frozen=True, slots=True)
class RaterScore:
    """How one rater does on labelled tasks: how often it puts a relevant candidate before another one, and a task that
    has relevant memories before one that has none (ties count half); and what its threshold chooses."""

    candidates: float | None
    tasks: float | None
    threshold: Threshold
    effect: ChoiceEffect


def rater_scores(inputs: Sequence[Rated], threshold: Threshold, most: int) -> Mapping[Rater, RaterScore]:
    """The relevance model, and the search's scores of the same candidates.

    The threshold of a score is the lowest that keeps as many turns clean as the model does, taken on these tasks
    themselves, which is more than the relevance model is granted.
    """
    found = {Rater.RELEVANCE_MODEL: _standing(inputs, threshold, most)}
    clean = found[Rater.RELEVANCE_MODEL].effect.clean
    for rater in (Rater.FUSION, Rater.COSINE):
        rated = [Rated(one.case, _values(one, rater)) for one in inputs]
        found[rater] = _standing(rated, _as_clean(rated, 1.0 if clean is None else clean), most)
    return found


def _standing(rated: Sequence[Rated], threshold: Threshold, most: int) -> RaterScore:
    pairs = [(one.relevant(), one.values) for one in rated if one.values is not None]
    flags = np.concatenate([flag for flag, _ in pairs]) if pairs else np.zeros(0, dtype=bool)
    values = np.concatenate([value for _, value in pairs]) if pairs else np.zeros(0)
    needs = np.array([bool(one.case.labels.relevant) for one in rated])
    best = np.array([one.best for one in rated])
    return RaterScore(auroc(flags, values), auroc(needs, best), threshold, measured(rated, threshold, most))


def _values(one: Rated, rater: Rater) -> Column | None:
    if one.values is None:
        return None
    found = [one.relevance if rater is Rater.FUSION else one.cosine or 0.0 for one in one.candidates]
    return np.array(found, dtype=np.float32)


def _as_clean(rated: Sequence[Rated], clean: float) -> Threshold:
    """The lowest threshold that at most the other tasks without relevant memories reach."""
    best = np.sort(np.array([one.best for one in rated if not one.case.labels.relevant], dtype=np.float32))
    place = round(clean * len(best)) - 1
    opens = float(np.nextafter(best[place] if place >= 0 else np.float32(-np.inf), np.float32(np.inf)))
    return Threshold(opens, opens)


def auroc(wanted: npt.NDArray[np.bool_], values: npt.NDArray[np.floating]) -> float | None:
    """How often a wanted value is the higher one of a pair, ties counting half; `None` where there is no pair."""
    good, other = int(wanted.sum()), int((~wanted).sum())
    return round(share_of_pairs(wanted, values), 4) if good and other else None


def share_of_pairs(wanted: npt.NDArray[np.bool_], values: npt.NDArray[np.floating]) -> float:
    """As `auroc`, not rounded, for values of which some are wanted and some are not."""
    _, place, number = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(number) - (number - 1) / 2.0)[place]
    good = int(wanted.sum())
    return float((rank[wanted].sum() - good * (good + 1) / 2.0) / (good * (len(wanted) - good)))


def measured(rated: Sequence[Rated], threshold: Threshold, most: int) -> ChoiceEffect:
    """What a threshold chooses, at most `most` memories for each task."""
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
    """Injected, relevant of them, essential found, essential, clean, without relevant, with forbidden."""
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
    """The mean negative log likelihood of the labels, where values are probabilities."""
    right = [np.where(one.relevant(), one.values, 1.0 - one.values) for one in rated if one.values is not None]
    if not right:
        return None
    return round(float(-np.log(np.maximum(np.concatenate(right), 1e-6)).mean()), 5)


def _share(number: float, of: float) -> float | None:
    return round(number / of, 4) if of else None
