"""Worlds made of worlds, so that the relevance model sees young stores and plain notes too. Pure.

Every labelled world is a store of a hundred notes with types, names, channels and importance. Real stores begin with
three notes that have nothing but their text. And where a labelled world asks something that sounds like memory, the
memory is there: a relevance model that saw nothing else would trust the wording of a task too much.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from worker.domain.memory import Memory, MemoryType
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

GROUP = 5
"""Tasks that are asked of one small store."""

EXTRAS = (0, 2, 6, 15, 30)
"""Memories in a small store that none of its tasks is about, in turn."""

TINY = (1, 3, 5, 10)
"""Memories in the tiny stores, which are asked every task of their world."""

SEPARATOR = ": "
USUAL_IMPORTANCE = 0.5


def origin(name: str) -> str:
    """The name of the world that a world was made of; its own where it is none of these."""
    return name.split(SEPARATOR, maxsplit=1)[0]


def variants_of(world: LabelledWorld, seed: int) -> Iterator[LabelledWorld]:
    """The world with plain notes and half of its tasks; small stores that hold what their tasks are about; tiny ones
    that hold it for few of theirs; and the world with holes, where half of the tasks that want something find nothing.
    """
    random = np.random.default_rng([seed, len(world.memories), *world.name.encode()])
    order = [world.tasks[place] for place in random.permutation(len(world.tasks))]
    half = order[: len(order) // 2]
    yield _named(world, "plain notes", tuple(map(plain, world.memories)), half)
    for number, start in enumerate(range(0, len(order), GROUP)):
        tasks = order[start : start + GROUP]
        memories = _store(world, tasks, EXTRAS[number % len(EXTRAS)], random)
        made = tuple(map(plain, memories)) if number % 2 else memories
        yield _named(world, f"small {number}", made, tasks)
    yield from _tiny(world, random)
    yield _with_holes(world, random)


def _tiny(world: LabelledWorld, random: np.random.Generator) -> Iterator[LabelledWorld]:
    about = sorted({key for task in world.tasks for key in task.relevant | task.forbidden})
    for place, number in enumerate(TINY):
        kept = {about[chosen] for chosen in random.permutation(len(about))[:number]}
        memories = tuple(memory for memory in world.memories if memory.id in kept)
        yield _named(world, f"tiny {number}", memories if place % 2 else tuple(map(plain, memories)), world.tasks)


def _with_holes(world: LabelledWorld, random: np.random.Generator) -> LabelledWorld:
    wanting = [task for task in world.tasks if task.relevant]
    gone = {key for place in random.permutation(len(wanting))[: len(wanting) // 2] for key in wanting[place].relevant}
    return _named(world, "holes", tuple(memory for memory in world.memories if memory.id not in gone), world.tasks)


def _named(
    world: LabelledWorld, name: str, memories: tuple[Memory, ...], tasks: Sequence[LabelledTask]
) -> LabelledWorld:
    """A world of these memories and tasks; a task is labelled with what there is of its memories."""
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
    """What the tasks are about and some other memories, at least one; in the order of the world."""
    about = {key for task in tasks for key in task.relevant | task.forbidden}
    others = [memory.id for memory in world.memories if memory.id not in about]
    kept = about | {others[place] for place in random.permutation(len(others))[: max(extra, not about)]}
    return tuple(memory for memory in world.memories if memory.id in kept)


def plain(memory: Memory) -> Memory:
    """A memory with nothing but its text, its time, its owner and what it replaces."""
    bare = {"type": MemoryType.FACT, "importance": USUAL_IMPORTANCE, "entities": (), "channel": None, "source": None}
    return memory.model_copy(update=bare)
