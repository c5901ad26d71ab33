"""Turn labelled worlds into arrays: features of each task's candidates, and labels."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from worker.relevance.model import FIRST_DAYS
from worker.relevance.need import CharacterRuns, runs_of
from worker.tuning.relevance_cases import RelevanceCase

from .head import HeadFitter
from .observing import Observed
from .variants import is_written, origin

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Rows:
    """Candidates of all tasks, task by task: features, labels, and the index of the task."""

    table: Floats
    relevant: Floats
    essential: Flags
    forbidden: Flags
    task: Integers

    def part(self, rows: Integers) -> "Rows":
        return Rows(*(getattr(self, name)[rows] for name in self.__slots__))


@dataclass(frozen=True, slots=True)
class Tasks:
    """All tasks: index of the world, whether anything is relevant, number of essential memories, whether there was a
    search, vector, and runs of the message."""

    world: Integers
    needs: Flags
    essential: Integers
    searched: Flags
    vectors: Floats
    runs: tuple[CharacterRuns, ...]


@dataclass(frozen=True, slots=True)
class Data:
    """Everything used for fitting and measuring; `cases` has one entry per task.

    A variant counts as the world it was made from. `twin` is the index of the same task in the original world, whose
    need score it shares; a task of no original world is its own. `small` flags the tasks of small stores.
    """

    worlds: tuple[str, ...]
    columns: tuple[str, ...]
    rows: Rows
    tasks: Tasks
    heads: HeadFitter
    twin: Integers
    small: Flags
    cases: tuple[RelevanceCase, ...]

    @property
    def written(self) -> Flags:
        """Flag the tasks of original worlds."""
        return np.array([is_written(case.world) for case in self.cases])

    @property
    def first_days(self) -> Flags:
        """Flag the tasks of stores on their first days."""
        sizes = np.array([case.inputs.size if case.inputs else FIRST_DAYS + 1 for case in self.cases])
        return sizes <= FIRST_DAYS

    @property
    def own(self) -> Flags:
        """Flag the tasks with a need score of their own."""
        own: Flags = self.twin == np.arange(len(self.twin))
        return own

    def only(self, tasks: Flags) -> tuple["Data", Integers]:
        """Return the flagged tasks alone, for measuring, and the indices of their rows."""
        kept = np.flatnonzero(tasks)
        rows = np.flatnonzero(tasks[self.rows.task])
        place = np.cumsum(tasks) - 1
        part = replace(self.rows.part(rows), task=place[self.rows.task[rows]])
        about = self.tasks
        less = Tasks(
            about.world[kept],
            about.needs[kept],
            about.essential[kept],
            about.searched[kept],
            about.vectors[kept],
            tuple(about.runs[task] for task in kept),
        )
        cases = tuple(self.cases[task] for task in kept)
        alone = replace(self, rows=part, tasks=less, twin=np.arange(len(kept)), small=self.small[kept], cases=cases)
        return alone, rows


def numbered(seen: Sequence[Observed], small: Collection[str] = ()) -> Data:
    """Put what was observed into arrays; `small` names the small stores."""
    cases = tuple(one.case for one in seen)
    worlds = tuple(dict.fromkeys(origin(case.world) for case in cases))
    full = [one for one in seen if len(one.table)]
    tasks = np.repeat(np.arange(len(seen)), [len(one.table) for one in seen])
    about, twin = _tasks(cases, worlds), _twins(cases)
    written = sum(is_written(case.world) for case in cases)
    heads = HeadFitter(about.vectors[:written], about.runs[:written])
    flags = np.array([origin(case.world) in small for case in cases])
    rows = _rows(cases, np.concatenate([one.table for one in full]), tasks)
    return Data(worlds, full[0].columns, rows, about, heads, twin, flags, cases)


def _twins(cases: Sequence[RelevanceCase]) -> Integers:
    """Return the index of each case's task in its original world, or its own; original worlds come first."""
    places = {(case.world, case.labels.key): place for place, case in enumerate(cases)}
    own = enumerate(cases)
    return np.array([places.get((origin(case.world), case.labels.key), place) for place, case in own], dtype=np.int64)


def _rows(cases: Sequence[RelevanceCase], table: Floats, tasks: Integers) -> Rows:
    ids = [candidate.memory.id for case in cases if case.inputs for candidate in case.inputs.candidates]
    labels = [cases[task].labels for task in tasks]
    pairs = list(zip(ids, labels, strict=True))
    return Rows(
        table,
        np.array([key in label.relevant for key, label in pairs], dtype=np.float32),
        np.array([key in label.essential for key, label in pairs]),
        np.array([key in label.forbidden for key, label in pairs]),
        tasks,
    )


def _tasks(cases: Sequence[RelevanceCase], worlds: Sequence[str]) -> Tasks:
    dimension = next(len(case.vector) for case in cases if case.vector is not None)
    blank = np.zeros(dimension, dtype=np.float32)
    return Tasks(
        np.array([worlds.index(origin(case.world)) for case in cases], dtype=np.int64),
        np.array([bool(case.labels.relevant) for case in cases]),
        np.array([len(case.labels.essential) for case in cases], dtype=np.int64),
        np.array([case.vector is not None for case in cases]),
        np.stack([blank if case.vector is None else case.vector for case in cases]),
        tuple(runs_of(case.labels.request.message) for case in cases),
    )
