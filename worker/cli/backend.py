"""Where a command's work is done: in the running service, or in this process when none owns the store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hooks.queue import QueueClient
from worker.bootstrap.core import open_core
from worker.bootstrap.opening import embedded_is_up, embedded_redis_url
from worker.operations.client import LocalOperationClient, OperationClient, QueueOperationClient, without_password
from worker.settings.injection import Settings

__all__ = ["LocalOperationClient", "OperationClient", "QueueOperationClient", "open_client", "without_password"]


@asynccontextmanager
async def open_client(settings: Settings, *, with_model: bool = False) -> AsyncIterator[OperationClient]:
    """The running service where there is one, else the store opened here."""
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
