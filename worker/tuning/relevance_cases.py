"""Labelled tasks with the candidates that recall finds for them, as input for the relevance model."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from hooks.contract import InjectionRequest
from worker.domain.deadline import Deadline
from worker.domain.memory import Recalled, SelectionTask
from worker.domain.timings import Stages
from worker.domain.visibility import visible_to
from worker.injection.duplicates import deduplicate
from worker.ports.models import Embedder
from worker.query.focus import focus
from worker.query.skipping import skip_reason
from worker.recall.ranking import within_pool
from worker.recall.recall import Recall, RecallScope
from worker.recall.searches import first_query
from worker.relevance.columns import Column
from worker.relevance.features import RelevanceInput
from worker.settings.injection import InjectionConfig

from .labelled_worlds import LabelledTask, LabelledWorld

DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class RelevanceCase:
    """A labelled task; `vector` is `None` if the request is skipped, `inputs` if recall finds nothing."""

    world: str
    labels: LabelledTask
    vector: Column | None
    inputs: RelevanceInput | None


async def observe(
    world: LabelledWorld, recall: Recall, embedder: Embedder, now: datetime, advance: Callable[[], None] = lambda: None
) -> AsyncIterator[RelevanceCase]:
    """Recall candidates for each task of a world stored as a tenant; tasks without a time run at `now`."""
    config = InjectionConfig(shared_users=world.shared_users)
    observer = _Observer(world, recall, embedder, config, now)
    for task in world.tasks:
        yield await observer.case(task)
        advance()


@dataclass(frozen=True, slots=True)
class _Observer:
    world: LabelledWorld
    recall: Recall
    embedder: Embedder
    config: InjectionConfig
    now: datetime

    async def case(self, task: LabelledTask) -> RelevanceCase:
        request, config = task.request, self.config
        if skip_reason(request, config) is not None:
            return RelevanceCase(self.world.name, task, None, None)
        now = request.now or self.now
        query = first_query(request, focus(request, config), config)
        replayed = request.now is not None
        channels = config.channels_told(request.scope.channel)
        visibility = visible_to(request.scope, request.agent_id, self.world.shared_users, now, replayed, channels)
        scope = RecallScope(self.world.name, visibility, now, request.scope.channel)
        for text in (query.query, *query.also):
            await self.embedder.embed_query(text)  # fill the cache: searches wait only briefly for vectors
        recalled = await self.recall(query, scope, config, Deadline.after(DEADLINE_S), Stages())
        vector = np.array(await self.embedder.embed_query(query.query), dtype=np.float32)
        inputs = self._inputs(task_of(task.request, recalled.query, now), recalled, vector)
        return RelevanceCase(self.world.name, task, vector, inputs if inputs.candidates else None)

    def _inputs(self, task: SelectionTask, recalled: Recalled, vector: Column) -> RelevanceInput:
        """Remove duplicates and limit the number of candidates, as the service does."""
        fresh, _ = deduplicate(recalled.candidates, {}, self.embedder.profile.duplicate)
        kept, _ = within_pool(fresh, self.config.pool_limit)
        return RelevanceInput(task, kept, recalled.size, vector)


def task_of(request: InjectionRequest, query: str, now: datetime) -> SelectionTask:
    return SelectionTask(
        message=request.message,
        task_description=request.task_description,
        recent_messages=request.recent_messages,
        query=query,
        now=now,
        user=request.scope.user,
        channel=request.scope.channel,
        source=request.source,
    )
