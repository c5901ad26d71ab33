"""Measure relevance models fitted to fewer worlds, to see whether more worlds would help."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from worker.domain.kinds import RelevanceProfile
from worker.tuning.relevance_measures import share_of_pairs

from .choosing import WANTED, best_of, counts, unseen_choice
from .fitting import Recipe, fit, folds, rows_of
from .table import Data, Flags, Floats, Integers

SIZES = (3, 6, 12, 24)
SPLITS = 3
"""Parts of the worlds; each is scored by models fitted to worlds of the other parts."""


@dataclass(frozen=True, slots=True)
class Step:
    """Measures on unseen worlds: AUROC of candidates and tasks, and shares at the profile `balanced`.

    `worlds` is the number of worlds used for fitting.
    """

    worlds: int
    candidates: float
    tasks: float
    precision: float
    recall: float
    clean: float


def learning_curve(data: Data, fitting: Flags, recipe: Recipe, advance: Callable[[], None]) -> list[Step]:
    """Return one step per size, measured on the flagged worlds with one seed."""
    chosen = np.flatnonzero(fitting)
    parts = np.full(len(fitting), SPLITS)
    parts[chosen] = folds(len(chosen), SPLITS, recipe.growth.seed)
    order = np.random.default_rng(recipe.growth.seed).permutation(chosen)
    single = replace(recipe, seeds=1)
    most = min(int((fitting & (parts != part)).sum()) for part in range(SPLITS))
    found = []
    for size in (size for size in SIZES if size <= most):
        scores = np.full(len(data.rows.task), -9.0, dtype=np.float32)
        for part in range(SPLITS):
            some = np.zeros_like(fitting)
            some[[world for world in order if parts[world] != part][:size]] = True
            rows = rows_of(data, parts == part)
            scores[rows] = fit(data, some, single, advance).scores(data, rows)
        written, places = data.only(data.written)
        found.append(measured(written, fitting, parts, scores[places], size))
    return found


def measured(data: Data, worlds: Flags, parts: Integers, scores: Floats, size: int) -> Step:
    """Measure scores of models fitted to `size` worlds, with thresholds from the other parts."""
    rows, tasks = rows_of(data, worlds), worlds[data.tasks.world]
    choice, _ = unseen_choice(data, scores, np.where(worlds, parts, -1), *WANTED[RelevanceProfile.BALANCED])
    found = counts(data, choice).measures(np.flatnonzero(worlds))
    return Step(
        size,
        share_of_pairs(data.rows.relevant[rows] > 0, scores[rows]),
        share_of_pairs(data.tasks.needs[tasks], best_of(data, scores)[tasks]),
        found.precision,
        found.recall,
        found.clean,
    )
