"""Labelled tasks as the judge meets them: with the candidates that the product's own recall brings."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import numpy as np

from .deadline import Deadline
from .dedup import deduplicate
from .focus import focus
from .judging_features import Column, Judged
from .legs import first_query
from .models import EmbedderProfile, Recalled, SelectionTask, visible_to
from .protocols import Embedder
from .ranking import within_pool
from .recall import Recall, RecallScope
from .settings import InjectionConfig
from .skipping import skip_reason
from .stages import Stages
from .worlds import Task, World

DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class Case:
    """A labelled task; `vector` is missing where it would not be searched with, `judged` where nothing is found."""

    world: str
    labels: Task
    vector: Column | None
    judged: Judged | None


async def observe(
    world: World, recall: Recall, embedder: Embedder, advance: Callable[[], None] = lambda: None
) -> AsyncIterator[Case]:
    """The tasks of a world that is stored as a tenant of its own, every task at its own time."""
    config = InjectionConfig(shared_users=world.shared_users)
    for task in world.tasks:
        yield await _case(world, task, recall, embedder, config)
        advance()


async def _case(world: World, task: Task, recall: Recall, embedder: Embedder, config: InjectionConfig) -> Case:
    request = task.request
    if skip_reason(request, config) is not None:
        return Case(world.name, task, None, None)
    assert request.now is not None
    query = first_query(request, focus(request, config), config)
    visibility = visible_to(request.scope, request.agent_id, world.shared_users, request.now, replay=True)
    scope = RecallScope(world.name, visibility, request.now, request.scope.channel)
    recalled = await recall(query, scope, config, Deadline.after(DEADLINE_S), Stages())
    vector = np.array(await embedder.embed_query(query.query), dtype=np.float32)
    judged = _judged(task, recalled, vector, embedder.profile, config)
    return Case(world.name, task, vector, judged if judged.candidates else None)


def _judged(
    task: Task, recalled: Recalled, vector: Column, profile: EmbedderProfile, config: InjectionConfig
) -> Judged:
    """The pool as a service hands it to whoever chooses: no repeats, cut to its size."""
    fresh, _ = deduplicate(recalled.candidates, {}, profile.duplicate)
    kept, _ = within_pool(fresh, config.pool_limit)
    return Judged(task_of(task, recalled.query), kept, recalled.size, vector)


def task_of(task: Task, query: str) -> SelectionTask:
    """What a selector is told of a labelled task."""
    request = task.request
    assert request.now is not None
    return SelectionTask(
        message=request.message,
        task_description=request.task_description,
        recent_messages=request.recent_messages,
        query=query,
        now=request.now,
        user=request.scope.user,
        channel=request.scope.channel,
        source=request.source,
    )
