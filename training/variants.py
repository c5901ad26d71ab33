"""Make variants of labelled worlds: small stores, plain notes, and missing memories. Pure.

A labelled world has about a hundred memories with types, names, channels and importance, and it contains what its
tasks ask for. Real stores start with a few plain notes, and a question about the past may have no answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from worker.domain.memory import Memory, MemoryType
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

LARGE = 60
"""Most memories of a world that is not cut into smaller ones."""

GROUP = 5
"""Tasks per small store."""

EXTRAS = (0, 2, 6, 15, 30)
"""Unrelated memories in each small store, in turn."""

TINY = (1, 3, 5, 10)
"""Sizes of the tiny stores, each used with all tasks of the world."""

SEPARATOR = ": "
USUAL_IMPORTANCE = 0.5


def origin(name: str) -> str:
    """Return the name of the world that a variant was made from; an original world's own name."""
    return name.split(SEPARATOR, maxsplit=1)[0]


def is_written(name: str) -> bool:
    """Return whether a world is original."""
    return SEPARATOR not in name


def variants_of(world: LabelledWorld, seed: int) -> Iterator[LabelledWorld]:
    """Yield variants of a world whose memories have cues; only `cues` and `holes with cues` keep them.

    These are: the world with cues; and holes, without the memories of half of the tasks that need some, with and
    without cues. A large world also yields plain notes with half of the tasks, small stores with the memories of a few
    tasks, and tiny stores.
    """
    random = np.random.default_rng([seed, len(world.memories), *world.name.encode()])
    bare = without_cues(world)
    if len(world.memories) > LARGE:
        yield from _smaller(bare, random)
    yield _with_holes(bare, "holes", random)
    if not any(memory.cues for memory in world.memories):
        return
    yield _named(world, "cues", world.memories, world.tasks)
    yield _with_holes(world, "holes with cues", random)


def _smaller(world: LabelledWorld, random: np.random.Generator) -> Iterator[LabelledWorld]:
    order = [world.tasks[place] for place in random.permutation(len(world.tasks))]
    yield _named(world, "plain notes", tuple(map(plain, world.memories)), order[: len(order) // 2])
    for number, start in enumerate(range(0, len(order), GROUP)):
        tasks = order[start : start + GROUP]
        memories = _store(world, tasks, EXTRAS[number % len(EXTRAS)], random)
        made = tuple(map(plain, memories)) if number % 2 else memories
        yield _named(world, f"small {number}", made, tasks)
    yield from _tiny(world, random)


def without_cues(world: LabelledWorld) -> LabelledWorld:
    return replace(world, memories=tuple(map(_bare, world.memories)))


def _bare(memory: Memory) -> Memory:
    return memory.model_copy(update={"cues": ()})


def _tiny(world: LabelledWorld, random: np.random.Generator) -> Iterator[LabelledWorld]:
    about = sorted({key for task in world.tasks for key in task.relevant | task.forbidden})
    for place, number in enumerate(TINY):
        kept = {about[chosen] for chosen in random.permutation(len(about))[:number]}
        memories = tuple(memory for memory in world.memories if memory.id in kept)
        yield _named(world, f"tiny {number}", memories if place % 2 else tuple(map(plain, memories)), world.tasks)


def _with_holes(world: LabelledWorld, name: str, random: np.random.Generator) -> LabelledWorld:
    wanting = [task for task in world.tasks if task.relevant]
    gone = {key for place in random.permutation(len(wanting))[: len(wanting) // 2] for key in wanting[place].relevant}
    return _named(world, name, tuple(memory for memory in world.memories if memory.id not in gone), world.tasks)


def _named(
    world: LabelledWorld, name: str, memories: tuple[Memory, ...], tasks: Sequence[LabelledTask]
) -> LabelledWorld:
    """Make a world of these memories and tasks, with labels for existing memories only."""
    made = f"{world.name}{SEPARATOR}{name}"
    held = {memory.id for memory in memories}
    asked = (
        LabelledTask(
            task.key,
            task.category,
            task.request.model_copy(update={"scope": task.request.scope.model_copy(update={"tenant": made})}),
            task.essential & held,
            task.useful & held,
            task.forbidden & held,
        )
        for task in tasks
    )
    return LabelledWorld(made, memories, tuple(asked), world.shared_users)


def _store(
    world: LabelledWorld, tasks: Sequence[LabelledTask], extra: int, random: np.random.Generator
) -> tuple[Memory, ...]:
    """Return the memories of the tasks and some others, at least one in total, in the world's order."""
    about = {key for task in tasks for key in task.relevant | task.forbidden}
    others = [memory.id for memory in world.memories if memory.id not in about]
    kept = about | {others[place] for place in random.permutation(len(others))[: max(extra, not about)]}
    return tuple(memory for memory in world.memories if memory.id in kept)


def plain(memory: Memory) -> Memory:
    """Strip a memory to its text, time, owner and relations."""
    bare = {"type": MemoryType.FACT, "importance": USUAL_IMPORTANCE, "entities": (), "channel": None, "source": None}
    return memory.model_copy(update=bare)
