"""Runs labelled worlds on a temporary service, for the calibration commands."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from worker.cli.backend import open_client
from worker.domain.visibility import as_everybodys
from worker.operations.client import OperationClient
from worker.operations.registry import PUT
from worker.query.focus import focus
from worker.query.skipping import skip_reason
from worker.recall.searches import first_query
from worker.settings.injection import InjectionConfig, Settings
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

BATCH = 100
BUDGET_S = 60.0


@asynccontextmanager
async def worlds_service(settings: Settings) -> AsyncIterator[OperationClient]:
    """Open a service without a model on a temporary store."""
    with tempfile.TemporaryDirectory(prefix="meeseeks-calibrate-") as folder:
        own = {"data_dir": Path(folder), "redis_url": None, "qdrant_url": None}
        service = settings.service.model_copy(update=own)
        async with open_client(replace(settings, service=service), with_model=False) as backend:
            yield backend


async def store_world(backend: OperationClient, world: LabelledWorld) -> None:
    """Store the memories in a tenant named after the world; those of shared users get no owner."""
    for start in range(0, len(world.memories), BATCH):
        batch = [
            as_everybodys(memory) if memory.scope.user in world.shared_users else memory
            for memory in world.memories[start : start + BATCH]
        ]
        payload = {"tenant": world.name, "memories": [memory.model_dump(mode="json") for memory in batch]}
        await backend.call(PUT, payload, budget=BUDGET_S)


def recall_of(task: LabelledTask, limit: int, *, ungated: bool) -> dict[str, Any] | None:
    """Return the search payload of a task, or `None` if it needs no search."""
    config, request = InjectionConfig(), task.request
    if skip_reason(request, config) is not None:
        return None
    query = first_query(request, focus(request, config), config)
    return {
        "query": query.query,
        "also": query.also,
        "history": query.history,
        "scope": request.scope.model_dump(mode="json"),
        "agent_id": request.agent_id,
        "now": request.now.isoformat() if request.now else None,
        "limit": limit,
        "ungated": ungated,
    }
