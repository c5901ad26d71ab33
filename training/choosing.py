"""Choose thresholds for the relevance profiles, and measure selections."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from worker.domain.kinds import RelevanceProfile
from worker.relevance.model import Threshold

from .table import Data, Flags, Floats, Integers

MOST_ITEMS = 5
"""Most memories to select for a task, as the default of `max_items`."""

WANTED = {
    RelevanceProfile.CAUTIOUS: (0.98, 0.85),
    RelevanceProfile.BALANCED: (0.97, 0.80),
    RelevanceProfile.GENEROUS: (0.90, 0.60),
}
"""Least share of clean turns and least precision, by profile."""

DRAWS = 2000
"""Bootstrap samples per interval."""

Choice = Flags
"""Flags of the selected rows."""


@dataclass(frozen=True, slots=True)
class Measures:
    """Precision, recall of essential memories, share of clean turns among tasks without relevant memories, share of
    tasks with a forbidden memory (all 0..1), and memories per task."""

    precision: float
    recall: float
    clean: float
    forbidden: float
    items: float


@dataclass(frozen=True, slots=True)
class Counts:
    """Counts per world (rows): selected, relevant of these, essential, selected of these, tasks without relevant
    memories, clean of these, tasks with a forbidden memory, tasks."""

    by_world: Integers

    def measures(self, worlds: Integers | None = None) -> Measures:
        rows = self.by_world if worlds is None else self.by_world[worlds]
        injected, good, essential, found, empty, clean, forbidden, tasks = rows.sum(axis=0).tolist()
        return Measures(
            good / max(1, injected),
            found / max(1, essential),
            clean / max(1, empty),
            forbidden / max(1, tasks),
            injected / max(1, tasks),
        )

    def interval(self, name: str, seed: int = 0) -> tuple[float, float]:
        """Return the 95 % bootstrap interval of a measure over worlds."""
        random = np.random.default_rng(seed)
        number = len(self.by_world)
        drawn = (getattr(self.measures(random.integers(0, number, number)), name) for _ in range(DRAWS))
        low, high = np.quantile(np.fromiter(drawn, dtype=np.float64), [0.025, 0.975])
        return float(low), float(high)


def ranks(data: Data, scores: Floats) -> Integers:
    """Return each row's rank among the rows of its task, best first, from 0."""
    order = np.lexsort((np.arange(len(scores)), -scores, data.rows.task))
    task = data.rows.task[order]
    starts = np.flatnonzero(np.concatenate([[True], task[1:] != task[:-1]]))
    lengths = np.diff(np.concatenate([starts, [len(task)]]))
    found = np.empty(len(scores), dtype=np.int64)
    found[order] = np.arange(len(scores)) - np.repeat(starts, lengths)
    return found


def best_of(data: Data, scores: Floats) -> Floats:
    """Return each task's highest score, minus infinity without candidates."""
    best = np.full(len(data.cases), -np.inf, dtype=np.float32)
    np.maximum.at(best, data.rows.task, scores)
    return best


def chosen(data: Data, scores: Floats, threshold: Threshold) -> Choice:
    """Select by a threshold, as `worker.relevance.selector` does."""
    opened = best_of(data, scores)[data.rows.task] >= threshold.opens
    picked: Choice = opened & (scores >= threshold.keeps) & (ranks(data, scores) < MOST_ITEMS)
    return picked


def counts(data: Data, choice: Choice) -> Counts:
    """Count per world what measures are computed from."""
    rows, tasks, number = data.rows, data.tasks, len(data.worlds)
    world = tasks.world[rows.task]
    injects, harms = np.zeros(len(data.cases), dtype=bool), np.zeros(len(data.cases), dtype=bool)
    injects[rows.task[choice]] = True
    harms[rows.task[choice & rows.forbidden]] = True
    columns = (
        np.bincount(world, choice, number),
        np.bincount(world, choice & (rows.relevant > 0), number),
        np.bincount(tasks.world, tasks.essential, number),
        np.bincount(world, choice & rows.essential, number),
        np.bincount(tasks.world, ~tasks.needs, number),
        np.bincount(tasks.world, ~tasks.needs & ~injects, number),
        np.bincount(tasks.world, harms, number),
        np.bincount(tasks.world, minlength=number),
    )
    return Counts(np.stack(columns, axis=1).astype(np.int64))


def threshold_for(data: Data, scores: Floats, worlds: Flags, clean: float, precision: float | None) -> Threshold:
    """Return the lowest thresholds that reach the share of clean turns and the precision on these worlds.

    Stores on their first days do not count: most of their tasks without an answer are about their only memory all the
    same, and would raise the thresholds of every store.
    Without a precision, `keeps` equals `opens`. If the precision is never reached, nothing passes.
    """
    mine = worlds[data.tasks.world] & ~data.first_days
    best = best_of(data, scores)
    empty = np.sort(best[mine & ~data.tasks.needs])
    opens = float(np.nextafter(empty[min(len(empty) - 1, int(np.ceil(clean * len(empty))) - 1)], np.float32(np.inf)))
    if not np.isfinite(opens):
        opens = float(np.quantile(scores, 0.99))
    if precision is None:
        return Threshold(opens, opens)
    running = mine[data.rows.task] & (best[data.rows.task] >= opens) & (ranks(data, scores) < MOST_ITEMS)
    rows = np.flatnonzero(running)
    rows = rows[np.argsort(-scores[rows], kind="stable")]
    share = np.cumsum(data.rows.relevant[rows] > 0) / np.arange(1, len(rows) + 1)
    last = np.append(scores[rows][1:] != scores[rows][:-1], True)[: len(rows)]  # equal scores pass together
    good = np.flatnonzero((share >= precision) & last)
    return Threshold(opens, float(scores[rows[good[-1]]]) if len(good) else float(np.max(scores)) + 1.0)


def thresholds_for(data: Data, scores: Floats, worlds: Flags) -> dict[RelevanceProfile, Threshold]:
    return {profile: threshold_for(data, scores, worlds, *wanted) for profile, wanted in WANTED.items()}


def unseen_choice(
    data: Data, scores: Floats, parts: Integers, clean: float, precision: float | None
) -> tuple[Choice, list[Threshold]]:
    """Select in each part of the worlds with a threshold chosen on the other parts."""
    picked = np.zeros(len(scores), dtype=bool)
    found = []
    for part in np.unique(parts):
        threshold = threshold_for(data, scores, parts != part, clean, precision)
        mine = (parts == part)[data.tasks.world[data.rows.task]]
        picked |= mine & chosen(data, scores, threshold)
        found.append(threshold)
    return picked, found


def by_category(data: Data, choice: Choice) -> Mapping[str, Measures]:
    """Measure the tasks of each category."""
    categories = np.array([case.labels.category for case in data.cases])
    return {name: measures_of(data, choice, categories == name) for name in sorted(set(categories.tolist()))}


def measures_of(data: Data, choice: Choice, tasks: Flags) -> Measures:
    """Measure the flagged tasks alone."""
    rows, mine = data.rows, tasks[data.rows.task]
    picked = choice & mine
    injects, harms = np.zeros(len(tasks), dtype=bool), np.zeros(len(tasks), dtype=bool)
    injects[rows.task[picked]] = True
    harms[rows.task[picked & rows.forbidden]] = True
    empty = tasks & ~data.tasks.needs
    return Measures(
        float((rows.relevant[picked] > 0).sum() / max(1, picked.sum())),
        float(rows.essential[picked].sum() / max(1, data.tasks.essential[tasks].sum())),
        float((empty & ~injects).sum() / max(1, empty.sum())),
        float((harms & tasks).sum() / max(1, tasks.sum())),
        float(picked.sum() / max(1, tasks.sum())),
    )
