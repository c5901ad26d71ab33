"""Calls operations in the running service, or in this process if no service runs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import typer

from hooks.queue import QueueClient
from worker.bootstrap.core import open_core
from worker.bootstrap.opening import embedded_is_up, embedded_redis_url
from worker.domain.operation import AnyOperation
from worker.operations.client import BUDGET_S, LocalOperationClient, OperationClient, QueueOperationClient
from worker.settings.injection import Settings

from .options import settings_of

__all__ = ["LocalOperationClient", "OperationClient", "QueueOperationClient", "call", "open_client"]


@asynccontextmanager
async def open_client(settings: Settings, *, with_model: bool = False) -> AsyncIterator[OperationClient]:
    """Connect to the running service, or open the store in this process."""
    url = settings.service.redis_url or embedded_redis_url(settings.service)
    if settings.service.redis_url is None and not embedded_is_up(settings.service):
        async with open_core(settings, with_model=with_model) as core:
            yield LocalOperationClient(core.operations)
        return
    client = QueueClient(url)
    try:
        yield QueueOperationClient(client, url)
    finally:
        await client.aclose()


def call(
    context: typer.Context, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S
) -> dict[str, Any]:
    """Run one operation and return its result; `budget` is in seconds."""
    settings = settings_of(context)

    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            return await backend.call(operation, payload, budget=budget)

    return asyncio.run(work())
