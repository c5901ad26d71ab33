"""Parts of the service in the process of a command; loaded only by commands that need it, because it imports a lot."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import typer

from worker.bootstrap.core import Core, open_core, open_settings
from worker.bootstrap.logs import configure_logging
from worker.domain.errors import StoreLocked
from worker.domain.operation import AnyOperation, by_name
from worker.operations.client import OperationClient, connected
from worker.operations.local_client import LocalOperationClient
from worker.operations.settings import SettingsOperations
from worker.settings.injection import Settings
from worker.settings.live import LiveSettings
from worker.settings.service import ServiceSettings

from .options import settings_of

QUIET = ServiceSettings(log_level="error")

LOCKED_S = 5.0
"""Seconds to wait for another command that has the store open, with a look every `AGAIN_S`."""

AGAIN_S = 0.1


def quiet_settings_of(context: typer.Context) -> Settings:
    """Return the settings, and log only errors. Raise `SettingsError` if they are invalid."""
    configure_logging(QUIET)
    return settings_of(context)


@asynccontextmanager
async def open_local(settings: Settings, *, with_model: bool) -> AsyncIterator[OperationClient]:
    """Open the service with its store in this process. Raise `StoreLocked` if another process keeps the store."""
    configure_logging(QUIET)
    async with AsyncExitStack() as stack:
        yield LocalOperationClient((await _open(settings, stack, with_model=with_model)).operations)


async def _open(settings: Settings, stack: AsyncExitStack, *, with_model: bool) -> Core:
    end = time.monotonic() + LOCKED_S
    while True:
        try:
            return await stack.enter_async_context(open_core(settings, with_model=with_model))
        except StoreLocked:
            if time.monotonic() > end:
                raise
            await asyncio.sleep(AGAIN_S)


async def ask_settings(
    loaded: Settings, redis_url: str | None, operation: AnyOperation, payload: dict[str, Any], *, budget: float
) -> dict[str, Any]:
    """Run an operation on the settings of the file and, with a URL, on those saved in Redis."""
    configure_logging(QUIET)
    redis: Any = connected(redis_url) if redis_url else None
    try:
        live = LiveSettings(loaded) if redis is None else await open_settings(loaded, redis)
        client = LocalOperationClient(by_name(SettingsOperations(live).handlers()))
        return await client.call(operation, payload, budget=budget)
    finally:
        if redis is not None:
            await redis.aclose()
