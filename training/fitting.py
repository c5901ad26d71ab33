"""Fit a relevance model to labelled tasks: the need model, the trees that use its score, and the calibration."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from worker.relevance.need import NeedModel
from worker.relevance.trees import Trees, mean_of

from .table import Data, Flags, Floats, Integers, Rows
from .trees import Growth, grow

INNER = 5
"""Parts of the fitted worlds; each gets its need scores from a need model fitted to the other parts."""

FORBIDDEN = 4.0
"""Weight of a memory that must not be injected."""

USEFUL = 0.5
"""Weight of a relevant memory that is not essential."""

WRITTEN = 2.0
"""Weight of a memory in an original world; in a variant, the weight is 1."""

SMALL = 2.0
"""Weight of a memory in a small store, as most users have one."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to fit a relevance model; `seeds` is the number of tree models to average."""

    growth: Growth = field(default_factory=Growth)
    seeds: int = 1


@dataclass(frozen=True, slots=True)
class Fitted:
    """A need model and trees, whose last column is the need score."""

    head: NeedModel
    trees: Trees

    def scores(self, data: Data, rows: Integers) -> Floats:
        """Return uncalibrated scores of candidates."""
        return self.trees(with_head(data, head_scores(self.head, data), rows))


def head_scores(head: NeedModel, data: Data) -> Floats:
    """Return the need score of every task; 0 for tasks without a search."""
    return _scored(head, data, np.flatnonzero(data.tasks.searched & data.own))[data.twin]


def _scored(head: NeedModel, data: Data, tasks: Integers) -> Floats:
    found = np.zeros(len(data.cases), dtype=np.float32)
    for task in tasks:
        found[task] = head(data.tasks.vectors[task], data.cases[task].labels.request.message)
    return found


def with_head(data: Data, heads: Floats, rows: Integers) -> Floats:
    """Return the columns of these rows and the need score of their task."""
    table = data.rows.table[rows]
    return np.concatenate([table, heads[data.rows.task[rows]][:, None]], axis=1)


def fit(data: Data, worlds: Flags, recipe: Recipe, step: Callable[[], None] = lambda: None) -> Fitted:
    """Fit a relevance model to the tasks of the flagged worlds."""
    tasks = _need_tasks(data, worlds)
    rows = np.flatnonzero(worlds[data.tasks.world[data.rows.task]])
    table = with_head(data, _unseen_heads(data, worlds), rows)
    part = data.rows.part(rows)
    weights = _weights(part, data)
    grown = [
        grow(table, part.relevant, weights, replace(recipe.growth, seed=recipe.growth.seed + seed), step)
        for seed in range(recipe.seeds)
    ]
    return Fitted(_head(data, tasks), mean_of(grown))


def _need_tasks(data: Data, worlds: Flags) -> Integers:
    """Return the tasks that the need model is fitted to.

    Small stores were asked personal questions that they hold no answer to. These do need memory, so they are left out.
    """
    told = data.tasks.needs | ~data.small
    return np.flatnonzero(worlds[data.tasks.world] & data.tasks.searched & data.written & told)


def _weights(rows: Rows, data: Data) -> Floats:
    useful = (rows.relevant > 0) & ~rows.essential
    counted = np.where(rows.forbidden, FORBIDDEN, 1.0) * np.where(useful, USEFUL, 1.0)
    counted *= np.where(data.written[rows.task], WRITTEN, 1.0) * np.where(data.small[rows.task], SMALL, 1.0)
    return counted.astype(np.float32)


def _head(data: Data, tasks: Integers) -> NeedModel:
    return data.heads.fit(tasks, data.tasks.needs[tasks].astype(np.float32))


def _unseen_heads(data: Data, worlds: Flags) -> Floats:
    """Return need scores by models fitted to other worlds; 0 if there is only one world."""
    found = np.zeros(len(data.cases), dtype=np.float32)
    held = np.flatnonzero(worlds)
    part = np.zeros(len(worlds), dtype=np.int64)
    part[held] = np.arange(len(held)) % INNER
    scored = worlds[data.tasks.world] & data.tasks.searched & data.own
    for number in range(min(INNER, len(held)) if len(held) > 1 else 0):
        others = worlds & (part != number)
        head = _head(data, _need_tasks(data, others))
        found += _scored(head, data, np.flatnonzero(scored & ~others[data.tasks.world]))
    return found[data.twin]


def folds(worlds: int, number: int, seed: int) -> Integers:
    """Return the random part of each world."""
    parts = np.empty(worlds, dtype=np.int64)
    parts[np.random.default_rng(seed).permutation(worlds)] = np.arange(worlds) % number
    return parts


def unseen_scores(
    data: Data, worlds: Flags, number: int, recipe: Recipe, step: Callable[[], None] = lambda: None
) -> Floats:
    """Score candidates of the flagged worlds by models that never saw their world; 0 for other worlds."""
    chosen = np.flatnonzero(worlds)
    parts = folds(len(chosen), number, recipe.growth.seed)
    scores = np.zeros(len(data.rows.task), dtype=np.float32)
    for part in range(number):
        fitted = fit(data, _flags(chosen[parts != part], len(worlds)), recipe, step)
        rows = rows_of(data, _flags(chosen[parts == part], len(worlds)))
        scores[rows] = fitted.scores(data, rows)
    return scores


def rows_of(data: Data, worlds: Flags) -> Integers:
    return np.flatnonzero(worlds[data.tasks.world[data.rows.task]])


def _flags(chosen: Sequence[int] | Integers, number: int) -> Flags:
    flags = np.zeros(number, dtype=bool)
    flags[np.array(chosen, dtype=np.int64)] = True
    return flags


def calibration(scores: Floats, relevant: Floats) -> tuple[float, float]:
    """Return scale and shift that turn scores into log odds (Platt 1999), by Newton's method."""
    design = np.stack([scores.astype(np.float64), np.ones(len(scores))], axis=1)
    found = np.array([1.0, 0.0])
    for _ in range(25):
        chance = 1.0 / (1.0 + np.exp(-(design @ found)))
        bend = chance * (1.0 - chance)
        found = found + np.linalg.solve(design.T @ (design * bend[:, None]), design.T @ (relevant - chance))
    return float(found[0]), float(found[1])
