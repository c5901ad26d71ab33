"""Measure how far a second reader, who did not see the labels, agrees with them. Pure."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld


@dataclass(frozen=True, slots=True)
class Reading:
    """A second reader's labels of a task: ids of essential and useful memories."""

    world: str
    task: str
    essential: frozenset[str]
    useful: frozenset[str]

    @property
    def relevant(self) -> frozenset[str]:
        return self.essential | self.useful


@dataclass(frozen=True, slots=True)
class Agreement:
    """Measures of the reader against the labels, 0..1.

    `kappa` is Cohen's kappa (1960) of relevance over all pairs of a task and a memory of its world.
    """

    worlds: int
    tasks: int
    kappa: float
    precision: float
    recall: float
    clean: float


def read_readings(path: Path) -> tuple[Reading, ...]:
    """Read JSON Lines of `world`, `id`, `essential` and `useful`. Raise `OSError`, `ValueError` or `KeyError`."""
    lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return tuple(
        Reading(line["world"], line["id"], frozenset(line["essential"]), frozenset(line["useful"])) for line in lines
    )


def agreement(worlds: Sequence[LabelledWorld], readings: Sequence[Reading]) -> Agreement:
    """Compare readings with labels. Raise `KeyError` for an unknown world or task."""
    tasks = {(world.name, task.key): task for world in worlds for task in world.tasks}
    sizes = {world.name: len(world.memories) for world in worlds}
    pairs = [(reading, tasks[reading.world, reading.task]) for reading in readings]
    chosen = sum(len(reading.relevant) for reading, _ in pairs)
    right = sum(len(reading.relevant & task.relevant) for reading, task in pairs)
    essential = sum(len(task.essential) for _, task in pairs)
    found = sum(len(reading.relevant & task.essential) for reading, task in pairs)
    empty = [reading for reading, task in pairs if not task.relevant]
    return Agreement(
        worlds=len({reading.world for reading in readings}),
        tasks=len(readings),
        kappa=_kappa(pairs, sizes),
        precision=right / max(1, chosen),
        recall=found / max(1, essential),
        clean=sum(not reading.relevant for reading in empty) / max(1, len(empty)),
    )


def _kappa(pairs: Sequence[tuple[Reading, LabelledTask]], sizes: Mapping[str, int]) -> float:
    number = sum(sizes[reading.world] for reading, _ in pairs)
    one = sum(len(reading.relevant) for reading, _ in pairs) / number
    other = sum(len(task.relevant) for _, task in pairs) / number
    differing = sum(len(reading.relevant ^ task.relevant) for reading, task in pairs) / number
    by_chance = one * other + (1.0 - one) * (1.0 - other)
    return 1.0 if by_chance == 1.0 else (1.0 - differing - by_chance) / (1.0 - by_chance)
