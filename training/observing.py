"""Recall candidates for labelled tasks as the service does, and compute their features, in several processes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from bench.processes import scratch
from bench.progress import bar
from worker.adapters.models.minilm import make_tokenizer
from worker.adapters.models.relevance_file import PieceCutter, PieceTable
from worker.cli.running import run_async
from worker.relevance.features import features, table_of
from worker.tuning.labelled_worlds import LabelledWorld
from worker.tuning.relevance_cases import RelevanceCase
from worker.tuning.world_store import open_world_store

from .variants import variants_of, without_cues

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Observed:
    """A task with candidates, and their features: a row per candidate, none if the case has no candidates.

    The case has no vectors of candidates, which all together would take gigabytes.
    """

    case: RelevanceCase
    columns: tuple[str, ...]
    table: Floats


@dataclass(frozen=True, slots=True)
class _World:
    own: tuple[Observed, ...]
    variants: tuple[Observed, ...]


def texts_of(worlds: Iterable[LabelledWorld]) -> Iterator[str]:
    """Yield every message and memory."""
    for world in worlds:
        yield from (task.request.message for task in world.tasks)
        yield from (memory.content for memory in world.memories)


def observed(
    worlds: Sequence[LabelledWorld], pieces: PieceTable, seed: int, progress: Progress, processes: int = 1
) -> tuple[Observed, ...]:
    """Observe the tasks of worlds without their cues, then of the variants of the worlds.

    Each world has a store of its own, so the number of processes makes no difference.
    """
    found: list[_World] = []
    total = sum(len(world.tasks) for world in worlds)
    with bar(progress, "recalling", total) as advance, _mapping(processes) as run:
        for world in run(partial(_observed, pieces=pieces, seed=seed), worlds):
            found.append(world)
            for _ in world.own:
                advance()
    own, varied = (one for world in found for one in world.own), (one for world in found for one in world.variants)
    return (*own, *varied)


@contextmanager
def _mapping(
    processes: int,
) -> Iterator[Callable[[Callable[[LabelledWorld], _World], Sequence[LabelledWorld]], Iterable[_World]]]:
    if processes == 1:
        yield map
        return
    # spawned, since threads of the embedder do not survive a fork
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield pool.map


def _observed(world: LabelledWorld, pieces: PieceTable, seed: int) -> _World:
    return run_async(_observe(without_cues(world), tuple(variants_of(world, seed)), pieces))


async def _observe(world: LabelledWorld, variants: Sequence[LabelledWorld], pieces: PieceTable) -> _World:
    cut = PieceCutter(pieces, make_tokenizer())
    with scratch() as place:
        async with open_world_store(place) as world_store:
            own = [_with_features(case, cut) for case in await world_store.cases(world)]
            varied = [_with_features(case, cut) for variant in variants for case in await world_store.cases(variant)]
    return _World(tuple(own), tuple(varied))


def _with_features(case: RelevanceCase, cut: PieceCutter) -> Observed:
    if case.inputs is None:
        return Observed(case, (), np.empty((0, 0), dtype=np.float32))
    found = features(case.inputs, cut)
    columns = tuple(found)
    candidates = tuple(replace(one, vector=None, cues=None) for one in case.inputs.candidates)
    return Observed(
        replace(case, inputs=replace(case.inputs, candidates=candidates)), columns, table_of(found, columns)
    )
