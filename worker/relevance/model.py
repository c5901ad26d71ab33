"""The relevance model, which estimates how likely a memory is relevant to a task. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from worker.domain.kinds import RelevanceProfile
from worker.domain.memory import Candidate

from .columns import Column
from .features import Cutter, RelevanceInput, features, table_of
from .need import NeedModel
from .trees import Trees

HEAD = "head"
"""Name of the column with the need model's score."""


FIRST_DAYS = 4
"""Most memories of a store on its first days."""

FIRST_DAYS_ODDS = 0.4
"""Log odds to add in such stores: that much, the model was too doubtful in those that it never saw."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """Least probabilities: `opens` for the best memory, `keeps` for each selected one."""

    opens: float
    keeps: float


@dataclass(frozen=True, slots=True)
class Adjustment:
    """An adjustment to a team's labels: the score becomes `scale * score + head * need score + shift`."""

    scale: float = 1.0
    head: float = 0.0
    shift: float = 0.0


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """A model for one embedder's vectors; `scale` and `shift` calibrate its scores to log odds."""

    version: str
    fingerprint: str
    columns: tuple[str, ...]
    head: NeedModel
    trees: Trees
    scale: float
    shift: float
    thresholds: Mapping[RelevanceProfile, Threshold]

    def scores(self, inputs: RelevanceInput, cut: Cutter) -> "Scores":
        """Return the score of each candidate and the need score of the task."""
        head = self.head(inputs.vector, inputs.task.message)
        columns = features(inputs, cut) | {HEAD: np.full(len(inputs.candidates), head, dtype=np.float32)}
        raw = self.trees(table_of(columns, self.columns))
        shift = self.shift + (FIRST_DAYS_ODDS if inputs.size <= FIRST_DAYS else 0.0)
        return Scores(np.float32(self.scale) * raw + np.float32(shift), head)


@dataclass(frozen=True, slots=True)
class Scores:
    """Calibrated scores of candidates and the need score of their task, in log odds."""

    items: Column
    head: float


def probabilities(scores: Scores, adjustment: Adjustment) -> Column:
    """Return the adjusted probability of each candidate, 0..1."""
    odds = adjustment.scale * scores.items + adjustment.head * scores.head + adjustment.shift
    found: npt.NDArray[np.float32] = np.exp(-np.logaddexp(0.0, -odds)).astype(np.float32)
    return found


@dataclass(frozen=True, slots=True)
class CandidateProbabilities:
    """Candidates with their probabilities, most probable first."""

    candidates: tuple[Candidate, ...]
    probabilities: tuple[float, ...]

    @property
    def best(self) -> float:
        return max(self.probabilities, default=0.0)

    def passing(self, threshold: Threshold) -> int:
        """Return how many candidates reach `keeps`; 0 if the best does not reach `opens`."""
        if self.best < threshold.opens:
            return 0
        return sum(value >= threshold.keeps for value in self.probabilities)


def in_order(candidates: Sequence[Candidate], likely: Column) -> CandidateProbabilities:
    """Sort candidates by probability, stably."""
    order = np.argsort(-likely, kind="stable")
    return CandidateProbabilities(
        tuple(candidates[place] for place in order), tuple(float(likely[place]) for place in order)
    )


def is_unsure(ranked: CandidateProbabilities, thresholds: Mapping[RelevanceProfile, Threshold]) -> bool:
    """Return whether the profiles disagree on whether to select the best candidate."""
    return thresholds[RelevanceProfile.GENEROUS].opens <= ranked.best < thresholds[RelevanceProfile.CAUTIOUS].opens
