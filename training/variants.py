"""Make variants of labelled worlds: small stores, plain notes, and missing memories. Pure.

A labelled world has about a hundred memories with types, names, channels and importance, and it contains what its
tasks ask for. Real stores start with a few plain notes, and a question about the past may have no answer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from worker.domain.memory import Memory, MemoryType
from worker.text.word_lists import FUNCTION_WORDS
from worker.text.wording import marks
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

LARGE, FEW = 60, 10
"""Least memories of a world that also becomes plain notes, and most of one that is not cut into smaller stores."""

GROUPS = (1, 2, 5)
"""Tasks that a small store is made for, in turn."""

EXTRAS = (0, 2, 6, 15, 30)
"""Unrelated memories in each small store, in turn."""

SEPARATOR = ": "
USUAL_IMPORTANCE = 0.5


def origin(name: str) -> str:
    """Return the name of the world that a variant was made from; an original world's own name."""
    return name.split(SEPARATOR, maxsplit=1)[0]


def is_written(name: str) -> bool:
    """Return whether a world is original."""
    return SEPARATOR not in name


def variants_of(world: LabelledWorld, seed: int) -> Iterator[LabelledWorld]:
    """Yield variants of a world whose memories have cues.

    These are: plain notes with half of the tasks; small stores with the memories of a few tasks; holes, without the
    memories of half of the tasks that need some; and the world with cues. Small stores and holes come without and with
    cues. A world of `LARGE` memories or fewer yields no plain notes, one of `FEW` or fewer no small stores.
    """
    random = np.random.default_rng([seed, len(world.memories), *world.name.encode()])
    bare, cued = without_cues(world), any(memory.cues for memory in world.memories)
    if len(world.memories) > LARGE:
        half = random.permutation(len(world.tasks))[: len(world.tasks) // 2]
        yield _named(bare, "plain notes", tuple(map(plain, bare.memories)), [world.tasks[place] for place in half])
    for source, name in ((bare, ""), (world, " with cues"))[: 1 + cued]:
        if len(world.memories) > FEW:
            yield from _small(source, f"small{name}", random)
        yield _with_holes(source, f"holes{name}", random)
    if cued:
        yield _named(world, "cues", world.memories, world.tasks)


def _small(world: LabelledWorld, name: str, random: np.random.Generator) -> Iterator[LabelledWorld]:
    """Yield stores with the memories of a few tasks, asked these and as many others that share their words.

    Half of what a new user asks has its answer in the store; the rest is about the same people and things.
    """
    words = {task.key: _words(task.request.message) for task in world.tasks}
    order, start, number = random.permutation(len(world.tasks)), 0, 0
    while start < len(order):
        tasks = [world.tasks[place] for place in order[start : start + GROUPS[number % len(GROUPS)]]]
        memories = _store(world, tasks, EXTRAS[number % len(EXTRAS)], random)
        held = frozenset().union(*(_words(memory.content) for memory in memories))
        rest = [world.tasks[place] for place in order if world.tasks[place] not in tasks]
        near = sorted(rest, key=lambda task: -len(words[task.key] & held))[: len(tasks)]
        made = tuple(map(plain, memories)) if number % 2 else memories
        yield _named(world, f"{name} {number}", made, [*tasks, *near])
        start, number = start + len(tasks), number + 1


def _words(text: str) -> frozenset[str]:
    return marks(text).words - FUNCTION_WORDS


def without_cues(world: LabelledWorld) -> LabelledWorld:
    return replace(world, memories=tuple(map(_bare, world.memories)))


def _bare(memory: Memory) -> Memory:
    return memory.model_copy(update={"cues": ()})


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
