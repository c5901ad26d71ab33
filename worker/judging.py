"""The judge: how likely it is that a memory belongs in the context of a task, and what is chosen by that. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from .judging_features import Column, Cutter, Judged, features, table_of
from .judging_head import Head
from .judging_trees import Trees
from .models import Candidate

HEAD = "head"
"""The column that the head fills."""


class JudgePoint(StrEnum):
    """What a judge is set to: hardly ever anything where nothing is needed, in between, or more of what is needed."""

    CLEAN98 = "clean98"
    BALANCED = "balanced"
    RECALL = "recall"


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
class Judge:
    """A judge for one embedder's vectors; `scale` and `shift` make its scores the logarithm of calibrated odds."""

    version: str
    fingerprint: str
    columns: tuple[str, ...]
    head: Head
    trees: Trees
    scale: float
    shift: float
    thresholds: Mapping[JudgePoint, Threshold]

    def adjusted(self, change: Adjustment) -> "AdjustedJudge":
        return AdjustedJudge(self, change)

    def scores(self, judged: Judged, cut: Cutter) -> "Scores":
        """The score of each candidate, and that of the task alone."""
        head = self.head(judged.vector, judged.task.message)
        columns = features(judged, cut) | {HEAD: np.full(len(judged.candidates), head, dtype=np.float32)}
        raw = self.trees(table_of(columns, self.columns))
        return Scores(np.float32(self.scale) * raw + np.float32(self.shift), head)


@dataclass(frozen=True, slots=True)
class Scores:
    """Calibrated scores of candidates, and the head's score of their task; all logarithms of odds."""

    items: Column
    head: float


@dataclass(frozen=True, slots=True)
class AdjustedJudge:
    """A judge with what a team's labels have changed of it."""

    judge: Judge
    change: Adjustment

    def probabilities(self, judged: Judged, cut: Cutter) -> Column:
        """How likely each candidate belongs in the context, 0..1, in the order of the candidates."""
        return probabilities(self.judge.scores(judged, cut), self.change)


def probabilities(scores: Scores, change: Adjustment) -> Column:
    """Scores as probabilities, 0..1."""
    odds = change.scale * scores.items + change.head * scores.head + change.shift
    found: npt.NDArray[np.float32] = (1.0 / (1.0 + np.exp(-odds))).astype(np.float32)
    return found


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Candidates with their probabilities, likeliest first, and how many of them are chosen."""

    candidates: tuple[Candidate, ...]
    probabilities: tuple[float, ...]
    chosen: int

    @property
    def best(self) -> float:
        return max(self.probabilities, default=0.0)


def decide(candidates: Sequence[Candidate], likely: Column, threshold: Threshold, most: int) -> Verdicts:
    """What is chosen: nothing where the likeliest does not reach `opens`, else the likeliest that reach `keeps`."""
    order = np.argsort(-likely, kind="stable")
    ordered = tuple(candidates[place] for place in order)
    values = tuple(float(likely[place]) for place in order)
    opens = bool(values) and values[0] >= threshold.opens
    passing = sum(value >= threshold.keeps for value in values) if opens else 0
    return Verdicts(ordered, values, min(passing, most))


def is_unsure(verdicts: Verdicts, thresholds: Mapping[JudgePoint, Threshold]) -> bool:
    """Whether the points disagree about the likeliest: something may be wanted, or what is chosen may not."""
    return thresholds[JudgePoint.RECALL].opens <= verdicts.best < thresholds[JudgePoint.CLEAN98].opens


def trimmed(verdicts: Verdicts, least: float) -> tuple[Candidate, ...]:
    """The candidates that a model should look at, likeliest first: those that are not surely beside the point."""
    pairs = zip(verdicts.candidates, verdicts.probabilities, strict=True)
    return tuple(candidate for candidate, likely in pairs if likely >= least)


def with_adjustment(judge: Judge, change: Adjustment | None) -> AdjustedJudge:
    """The judge as it ships, where nothing has been changed."""
    return AdjustedJudge(judge, change or Adjustment())
