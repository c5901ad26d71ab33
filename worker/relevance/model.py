"""The model: how likely it is that a memory belongs in the context of a task, and what is chosen by that. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.domain.kinds import RelevanceProfile
from worker.domain.memory import Candidate

from .features import Column, Cutter, RelevanceInput, features, table_of
from .need import NeedModel
from .trees import Trees

HEAD = "head"
"""The column that the head fills."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """The probability that the best memory must reach for any to be chosen, and the one that each must reach."""

    opens: float
    keeps: float


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What a team's own labels have changed: the score is `scale * score + head * head's score + shift`."""

    scale: float = 1.0
    head: float = 0.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """A model for one embedder's vectors; `scale` and `shift` turn its scores into calibrated log odds."""

    version: str
    fingerprint: str
    columns: tuple[str, ...]
    head: NeedModel
    trees: Trees
    scale: float
    shift: float
    thresholds: Mapping[RelevanceProfile, Threshold]

    def scores(self, inputs: RelevanceInput, cut: Cutter) -> "Scores":
        """The score of each candidate, and that of the task alone."""
        head = self.head(inputs.vector, inputs.task.message)
        columns = features(inputs, cut) | {HEAD: np.full(len(inputs.candidates), head, dtype=np.float32)}
        raw = self.trees(table_of(columns, self.columns))
        return Scores(np.float32(self.scale) * raw + np.float32(self.shift), head)


@dataclass(frozen=True, slots=True)
class Scores:
    """Calibrated scores of candidates, and the head's score of their task; all logarithms of odds."""

    items: Column
    head: float


@dataclass(frozen=True, slots=True)
class AdjustedModel:
    """A relevance model with what a team's labels have changed of it."""

    relevance_model: RelevanceModel
    change: Adjustment

    def probabilities(self, inputs: RelevanceInput, cut: Cutter) -> Column:
        """How likely each candidate belongs in the context, 0..1, in the order of the candidates."""
        return probabilities(self.relevance_model.scores(inputs, cut), self.change)


def probabilities(scores: Scores, change: Adjustment) -> Column:
    """Scores as probabilities, 0..1."""
    odds = change.scale * scores.items + change.head * scores.head + change.shift
    found: npt.NDArray[np.float32] = np.exp(-np.logaddexp(0.0, -odds)).astype(np.float32)
    return found


@dataclass(frozen=True, slots=True)
class CandidateProbabilities:
    """Candidates with their probabilities, likeliest first."""

    candidates: tuple[Candidate, ...]
    probabilities: tuple[float, ...]

    @property
    def best(self) -> float:
        return max(self.probabilities, default=0.0)

    def passing(self, threshold: Threshold) -> int:
        """How many reach a threshold: none where the likeliest does not reach `opens`."""
        if self.best < threshold.opens:
            return 0
        return sum(value >= threshold.keeps for value in self.probabilities)


def in_order(candidates: Sequence[Candidate], likely: Column) -> CandidateProbabilities:
    """Candidates by their probability; equal ones keep their order."""
    order = np.argsort(-likely, kind="stable")
    return CandidateProbabilities(
        tuple(candidates[place] for place in order), tuple(float(likely[place]) for place in order)
    )


def is_unsure(ranked: CandidateProbabilities, thresholds: Mapping[RelevanceProfile, Threshold]) -> bool:
    """Whether the points disagree about the likeliest: something may be wanted, or what is chosen may not."""
    return thresholds[RelevanceProfile.GENEROUS].opens <= ranked.best < thresholds[RelevanceProfile.CAUTIOUS].opens


def with_adjustment(relevance_model: RelevanceModel, change: Adjustment | None) -> AdjustedModel:
    """The relevance model as it ships, where nothing has been changed."""
    return AdjustedModel(relevance_model, change or Adjustment())
