"""Turn labelled worlds into arrays: features of each task's candidates, and labels."""

import asyncio
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from bench.processes import scratch
from bench.progress import bar
from worker.adapters.models.relevance_file import PieceCutter, PieceTable, make_tokenizer
from worker.domain.memory import Vector
from worker.relevance.features import features, table_of
from worker.relevance.need import CharacterRuns, runs_of
from worker.tuning.labelled_worlds import LabelledWorld, read_worlds
from worker.tuning.relevance_cases import RelevanceCase
from worker.tuning.world_store import open_world_store

from .head import HeadFitter
from .variants import is_written, origin, variants_of, without_cues

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


def observed(folders: Sequence[Path], seed: int, progress: Progress) -> tuple[RelevanceCase, ...]:
    """Recall candidates for the tasks of all worlds in `folders`, then of their variants, as the service does."""
    cued = [world for folder in folders for world in read_worlds(folder, cues=True)]
    worlds = [without_cues(world) for world in cued]
    worlds += [made for world in cued for made in variants_of(world, seed)]
    return tuple(asyncio.run(_observe(worlds, progress)))


async def _observe(worlds: Sequence[LabelledWorld], progress: Progress) -> list[RelevanceCase]:
    cases: list[RelevanceCase] = []
    with scratch() as place, bar(progress, "recalling", sum(len(world.tasks) for world in worlds)) as advance:
        async with open_world_store(place) as world_store:
            for world in worlds:
                cases += map(_packed, await world_store.cases(world, advance))
    return cases


def _packed(case: RelevanceCase) -> RelevanceCase:
    """Keep the vectors of candidates as arrays: as tuples of numbers, they would take ten gigabytes."""
    if case.inputs is None:
        return case
    candidates = tuple(
        replace(one, vector=cast("Vector", array("f", one.vector)) if one.vector else None)
        for one in case.inputs.candidates
    )
    return replace(case, inputs=replace(case.inputs, candidates=candidates))


def texts_of(cases: Sequence[RelevanceCase]) -> Iterator[str]:
    """Yield every message, and each candidate's memory once."""
    seen: set[tuple[str, str]] = set()
    for case in cases:
        yield case.labels.request.message
        for candidate in case.inputs.candidates if case.inputs else ():
            key = (case.world, candidate.memory.id)
            if key not in seen:
                seen.add(key)
                yield candidate.memory.content


def numbered(
    cases: Sequence[RelevanceCase],
    table: PieceTable,
    small: Collection[str] = (),
    step: Callable[[], None] = lambda: None,
) -> Data:
    """Turn the cases into arrays; `small` names the small stores."""
    cut = PieceCutter(table, make_tokenizer())
    worlds = tuple(dict.fromkeys(origin(case.world) for case in cases))
    columns: tuple[str, ...] = ()
    tables, tasks = [], []
    for place, case in enumerate(cases):
        step()
        if case.inputs is None:
            continue
        found = features(case.inputs, cut)
        columns = tuple(found)
        tables.append(table_of(found, columns))
        tasks += [place] * len(case.inputs.candidates)
    about, twin = _tasks(cases, worlds), _twins(cases)
    written = sum(is_written(case.world) for case in cases)
    heads = HeadFitter(about.vectors[:written], about.runs[:written])
    flags = np.array([origin(case.world) in small for case in cases])
    return Data(worlds, columns, _rows(cases, tables, tasks), about, heads, twin, flags, tuple(cases))


def _twins(cases: Sequence[RelevanceCase]) -> Integers:
    """Return the index of each case's task in its original world, or its own; original worlds come first."""
    places = {(case.world, case.labels.key): place for place, case in enumerate(cases)}
    own = enumerate(cases)
    return np.array([places.get((origin(case.world), case.labels.key), place) for place, case in own], dtype=np.int64)


def _rows(cases: Sequence[RelevanceCase], tables: Sequence[Floats], tasks: Sequence[int]) -> Rows:
    ids = [candidate.memory.id for case in cases if case.inputs for candidate in case.inputs.candidates]
    labels = [cases[task].labels for task in tasks]
    pairs = list(zip(ids, labels, strict=True))
    return Rows(
        np.concatenate(tables),
        np.array([key in label.relevant for key, label in pairs], dtype=np.float32),
        np.array([key in label.essential for key, label in pairs]),
        np.array([key in label.forbidden for key, label in pairs]),
        np.array(tasks, dtype=np.int64),
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
