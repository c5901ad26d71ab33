"""Worlds made of worlds, so that the judge sees young stores and plain notes too. Pure.

Every labelled world is a store of a hundred notes with types, names, channels and importance. Real stores begin with
three notes that have nothing but their text.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from worker.models import Memory, MemoryType
from worker.worlds import Task, World

GROUP = 5
"""Tasks that are asked of one small store."""

EXTRAS = (0, 2, 6, 15, 30)
"""Memories in a small store that none of its tasks is about, in turn."""

SEPARATOR = ": "
USUAL_IMPORTANCE = 0.5


def origin(name: str) -> str:
    """The name of the world that a world was made of; its own where it is none of these."""
    return name.split(SEPARATOR, maxsplit=1)[0]


def variants_of(world: World, seed: int) -> Iterator[World]:
    """The world with plain notes and half of its tasks, and small stores, half of them with plain notes."""
    random = np.random.default_rng([seed, len(world.memories), *world.name.encode()])
    order = [world.tasks[place] for place in random.permutation(len(world.tasks))]
    half = order[: len(order) // 2]
    yield _named(world, "plain notes", tuple(map(plain, world.memories)), half)
    for number, start in enumerate(range(0, len(order), GROUP)):
        tasks = order[start : start + GROUP]
        memories = _store(world, tasks, EXTRAS[number % len(EXTRAS)], random)
        made = tuple(map(plain, memories)) if number % 2 else memories
        yield _named(world, f"small {number}", made, tasks)


def _named(world: World, name: str, memories: tuple[Memory, ...], tasks: Sequence[Task]) -> World:
    made = f"{world.name}{SEPARATOR}{name}"
    asked = (
        Task(
            task.key,
            task.category,
            task.request.model_copy(update={"scope": task.request.scope.model_copy(update={"tenant": made})}),
            task.essential,
            task.useful,
            task.forbidden,
        )
        for task in tasks
    )
    return World(made, memories, tuple(asked), world.shared_users)


def _store(world: World, tasks: Sequence[Task], extra: int, random: np.random.Generator) -> tuple[Memory, ...]:
    """What the tasks are about and some other memories, at least one; in the order of the world."""
    about = {key for task in tasks for key in task.relevant | task.forbidden}
    others = [memory.id for memory in world.memories if memory.id not in about]
    kept = about | {others[place] for place in random.permutation(len(others))[: max(extra, not about)]}
    return tuple(memory for memory in world.memories if memory.id in kept)


def plain(memory: Memory) -> Memory:
    """A memory with nothing but its text, its time, its owner and what it replaces."""
    bare = {"type": MemoryType.FACT, "importance": USUAL_IMPORTANCE, "entities": (), "channel": None, "source": None}
    return memory.model_copy(update=bare)
