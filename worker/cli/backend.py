"""Calls operations in the running service, or in this process if no service runs."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

import typer

from hooks.queue import QueueClient
from worker.bootstrap.embedded import embedded_is_up, embedded_redis_url
from worker.domain.operation import AnyOperation
from worker.operations.client import BUDGET_S, OperationClient, QueueOperationClient
from worker.operations.registry import SETTINGS_GET
from worker.settings.injection import Settings

from .options import settings_of
from .output import warn
from .running import run_async


def is_served(settings: Settings) -> bool:
    """Return whether a service runs that owns the store, or may run because Redis is a server."""
    return settings.service.redis_url is not None or embedded_is_up(settings.service)


@asynccontextmanager
async def open_client(settings: Settings, *, with_model: bool = False) -> AsyncIterator[OperationClient]:
    """Connect to the running service, or open the store in this process."""
    if not is_served(settings):
        async with local().open_local(settings, with_model=with_model) as client:
            yield client
        return
    url = settings.service.redis_url or embedded_redis_url(settings.service)
    queue = QueueClient(url)
    try:
        yield QueueOperationClient(queue, url)
    finally:
        await queue.aclose()


async def note_other_models(settings: Settings, client: OperationClient) -> None:
    """Say on standard error if a running service uses another model than this command's variables name."""
    if not is_served(settings):
        return
    given = {name: os.environ.get(f"MEESEEKS_{name.upper()}") for name in ("model", "model_api_base")}
    if not any(given.values()):
        return
    running = (await client.call(SETTINGS_GET, {}))["service"]
    for name, value in given.items():
        used = running[name]["value"]
        if value and value != (used or "none"):
            warn(
                f"MEESEEKS_{name.upper()} is ignored: the running service uses {used or 'none'}; restart it with yours"
            )


def local() -> Any:
    """Return `worker.cli.local`. It imports the whole service, which takes longer than asking a running one."""
    return import_module("worker.cli.local")


def call(
    context: typer.Context, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S
) -> dict[str, Any]:
    """Run one operation and return its result; `budget` is in seconds."""
    settings = settings_of(context)

    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            return await backend.call(operation, payload, budget=budget)

    return run_async(work())
