"""Score what was chosen for labelled tasks, and fit thresholds on ranked scores. Pure."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import accumulate

from worker.tuning.labelled_worlds import LabelledTask

SPLITS = 20
SEED = 7

Chosen = tuple[LabelledTask, Sequence[str]]
"""A task and the ids of the memories chosen for it."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A task and the memories found for it with their scores, best first."""

    task: LabelledTask
    found: tuple[tuple[str, float], ...]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(key for key, _ in self.found)

    def above(self, threshold: float) -> tuple[str, ...]:
        return tuple(key for key, score in self.found if score >= threshold)


@dataclass(frozen=True, slots=True)
class Score:
    """Counts over tasks. Useful memories count as neither right nor wrong.

    `empty` tasks expect nothing, and `clean` ones of them got nothing; `forbidden` counts memories.
    """

    tasks: int = 0
    expected: int = 0
    chosen: int = 0
    right: int = 0
    empty: int = 0
    clean: int = 0
    forbidden: int = 0

    def __add__(self, other: "Score") -> "Score":
        return Score(*(one + two for one, two in zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float | None:
        return self.right / self.chosen if self.chosen else None

    @property
    def recall(self) -> float | None:
        return self.right / self.expected if self.expected else None

    @property
    def f1(self) -> float | None:
        return 2 * self.right / (self.chosen + self.expected) if self.expected else None

    @property
    def clean_turns(self) -> float | None:
        return self.clean / self.empty if self.empty else None


def score_of(chosen: Iterable[Chosen]) -> Score:
    """Score the choices for all tasks."""
    return sum((_one(task, ids) for task, ids in chosen), Score())


def _one(task: LabelledTask, ids: Sequence[str]) -> Score:
    counted = set(ids) - task.useful
    return Score(
        tasks=1,
        expected=len(task.essential),
        chosen=len(counted),
        right=len(counted & task.essential),
        empty=not task.essential,
        clean=not task.essential and not counted,
        forbidden=len(counted & task.forbidden),
    )


def cross_fitted(ranked: Sequence[Ranked]) -> Score:
    """Fit a threshold on one half of the tasks and score the other; return the sum over `SPLITS` random splits."""
    shuffler, total, order = random.Random(SEED), Score(), list(ranked)
    for _ in range(SPLITS):
        shuffler.shuffle(order)
        half = len(order) // 2
        threshold = best_threshold(order[:half])
        total += score_of((one.task, one.above(threshold)) for one in order[half:])
    return total


def best_threshold(ranked: Sequence[Ranked]) -> float:
    """Return the threshold with the best F1, infinity if there is nothing to choose from."""
    scores = [(score, key in one.task.essential) for one in ranked for key, score in one.found if _counts(one, key)]
    scores.sort(reverse=True)
    expected = sum(len(one.task.essential) for one in ranked)
    right = accumulate(good for _, good in scores)
    f1 = [2 * good / (number + expected) for number, good in enumerate(right, start=1)]
    return scores[f1.index(max(f1))][0] if f1 else float("inf")


def _counts(one: Ranked, key: str) -> bool:
    return key not in one.task.useful


def share_found(ranked: Iterable[Ranked], first: int) -> float:
    """Return the share of the essential memories that are among the first ones found."""
    found = expected = 0
    for one in ranked:
        found += len(one.task.essential & set(one.ids[:first]))
        expected += len(one.task.essential)
    return found / expected if expected else 0.0
