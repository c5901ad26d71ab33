"""Where a command's work is done: in the running service, or in this process when none owns the store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Protocol

from hooks.contract import Reason
from hooks.queue import QueueClient, QueueFault
from worker.app import Core, open_core
from worker.deadline import Deadline
from worker.errors import QueueError
from worker.opening import embedded_is_up, embedded_redis_url
from worker.settings import Settings

WHAT_TO_DO = {
    Reason.NO_WORKER: "no worker is running; start one with `meeseeks up` or `meeseeks worker`",
    Reason.NO_ACK: "the worker does not take up work; it is hung or overloaded",
    Reason.BUSY: "too many jobs are waiting already",
    Reason.DEADLINE: "the worker did not answer in time",
    Reason.QUEUE_UNAVAILABLE: "Redis cannot be reached; check MEESEEKS_REDIS_URL",
}


class Backend(Protocol):
    """Does operations; `where` says for people where."""

    @property
    def where(self) -> str: ...

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]: ...


class QueueBackend:
    """Sends operations to a worker. Raises `QueueError` with advice."""

    def __init__(self, client: QueueClient, url: str) -> None:
        self._client = client
        self.where = f"the service at {without_password(url)}"

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]:
        try:
            reply = await self._client.ask(operation, payload, budget=budget, ack_timeout=min(2.0, budget))
        except QueueFault as fault:
            raise QueueError(fault.reason, WHAT_TO_DO.get(fault.reason, str(fault))) from fault
        if reply.commit is not None:
            await self._client.commit(*reply.commit, timeout=1.0)
        return reply.body


class LocalBackend:
    """Does operations in this process."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.where = "this process"

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = 10.0) -> dict[str, Any]:
        answer = await self._core.operations[operation](payload, Deadline.after(budget))
        return answer.body


@asynccontextmanager
async def open_backend(settings: Settings, *, with_model: bool = False) -> AsyncIterator[Backend]:
    """The running service where there is one, else the store opened here."""
    url = settings.service.redis_url or embedded_redis_url(settings.service)
    if settings.service.redis_url is None and not embedded_is_up(settings.service):
        async with open_core(settings, with_model=with_model) as core:
            yield LocalBackend(core)
        return
    client = QueueClient(url)
    try:
        yield QueueBackend(client, url)
    finally:
        await client.aclose()


def without_password(url: str) -> str:
    """An address that may be shown."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
