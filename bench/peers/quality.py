"""What the systems find for the tasks of labelled worlds. The pure part of the comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from worker.domain.memory import Memory
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

from ..measure import Table
from ..outside.scoring import Ranked, Score, cross_fitted, score_of, share_found

FIRST = (5, 10)
TOP = 5
HEADS = ("", "precision", "recall", "F1", "clean turns", "memories per task")


def permitted(world: LabelledWorld, task: LabelledTask) -> frozenset[str]:
    """Return the memories that a filter of the peer's user would let through: their owner, agent, project and time."""
    return frozenset(memory.id for memory in world.memories if _permitted(world, task, memory))


def _permitted(world: LabelledWorld, task: LabelledTask, memory: Memory) -> bool:
    request, owner = task.request, memory.scope
    users = (None, request.scope.user, *world.shared_users)
    agents = (None, request.scope.agent, request.agent_id)
    foreign = owner.user not in users or owner.agent not in agents or owner.project not in (None, request.scope.project)
    return not foreign and not _untimely(memory, task)


def _untimely(memory: Memory, task: LabelledTask) -> bool:
    """Return whether a memory is outdated, or not known yet at the time of the task."""
    now = task.request.now
    if memory.superseded_by is not None or (now and memory.valid_until and memory.valid_until <= now):
        return True
    return bool(now and memory.created_at and memory.created_at > now)


def ranked(world: LabelledWorld, answers: Mapping[str, Sequence[tuple[str, float]]]) -> list[Ranked]:
    """Return what was found for each task of a world, without what its user would filter out."""
    rows = []
    for task in world.tasks:
        allowed = permitted(world, task)
        found = tuple((key, score) for key, score in answers.get(task.key, ()) if key in allowed)
        rows.append(Ranked(task, found))
    return rows


@dataclass(frozen=True, slots=True)
class Quality:
    """What each system ranked, and how what ours injects and what a peer's user would inject scores."""

    orders: Mapping[str, Sequence[Ranked]]
    injected: Mapping[str, Score]

    def tables(self, about: str) -> tuple[Table, Table]:
        found = tuple(
            (name, *(_share(share_found(one, first)) for first in FIRST)) for name, one in self.orders.items()
        )
        chosen = tuple(_chosen_row(name, score) for name, score in self.injected.items())
        return (
            Table(title=f"{about}: share of the needed memories among the first", heads=("", "5", "10"), rows=found),
            Table(title=f"{about}: injected", heads=HEADS, rows=chosen),
        )


def of_peer(name: str, found: Sequence[Ranked]) -> dict[str, Score]:
    """Return the scores of a peer: with a threshold fitted on one half of the tasks, and of its first results."""
    first = score_of((one.task, one.ids[:TOP]) for one in found)
    return {f"{name}, threshold fitted to the set": cross_fitted(found), f"{name}, first {TOP}": first}


def _chosen_row(name: str, score: Score) -> tuple[str, ...]:
    shares = (score.precision, score.recall, score.f1, score.clean_turns)
    return (name, *(_share(value) for value in shares), f"{score.chosen / max(1, score.tasks):.2f}")


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"
