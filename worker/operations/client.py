"""Clients of the operations; this one asks the running service over Redis.

A caller asks, delivers the answer, and then commits it: a memory counts as shown once its block was delivered.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hooks.contract import Reason
from hooks.queue import UNREACHABLE, QueueClient, QueueFault, RedisAddressError, connect
from worker.domain.errors import NotFound, QueueError
from worker.domain.operation import AnyOperation, OperationAnswer

BUDGET_S = 10.0
COMMIT_S = 1.0
ACK_S = 2.0
"""Seconds in which a worker must start a job."""

WHAT_TO_DO = {
    Reason.NO_WORKER: "no worker is running; start one with `meeseeks start` or `meeseeks admin worker`",
    Reason.NO_ACK: "the worker does not start new jobs; it hangs or is overloaded",
    Reason.BUSY: "too many jobs are waiting; try again later",
    Reason.DEADLINE: "the worker did not answer in time",
    Reason.QUEUE_UNAVAILABLE: UNREACHABLE,
}


@dataclass(frozen=True, slots=True)
class QueueState:
    """How many jobs wait, and whether a worker is alive."""

    waiting: int
    alive: bool


QueueLook = Callable[[], Awaitable[QueueState | None]]
"""Returns the state of the queue, or `None` if Redis does not answer."""


class OperationClient(Protocol):
    """Runs operations and raises only `MeeseeksError`. `where` names the place for people."""

    where: str

    async def ask(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        """Return the result within `budget` seconds. The caller commits it."""
        ...

    async def commit(self, delivered: tuple[str, str]) -> bool:
        """Mark an answer as delivered. Return `False` if that fails or the ledger does not know it."""
        ...

    async def call(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S
    ) -> dict[str, Any]:
        """Return the result and commit it."""
        answer = await self.ask(operation, payload, budget=budget)
        if answer.commit is not None:
            await self.commit(answer.commit)
        return answer.body


class QueueOperationClient(OperationClient):
    """Sends operations to a worker. Raises `QueueError` and `NotFound`."""

    def __init__(self, client: QueueClient, url: str) -> None:
        self._client = client
        self.where = f"the service at {without_password(url)}"

    async def ask(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        try:
            reply = await self._client.ask(operation.name, payload, budget=budget, ack_timeout=min(ack, budget))
        except QueueFault as fault:
            if fault.reason is Reason.NOT_FOUND:
                raise NotFound(str(fault)) from fault
            raise QueueError(fault.reason, _meaning(fault)) from fault
        return OperationAnswer(reply.body, reply.commit)

    async def commit(self, delivered: tuple[str, str]) -> bool:
        return await self._client.commit(*delivered, timeout=COMMIT_S)


def _meaning(fault: QueueFault) -> str:
    """Return what to do; the client itself says why Redis fails, unless it did not answer at all."""
    if fault.reason is Reason.QUEUE_UNAVAILABLE and str(fault) != fault.reason.value:
        return str(fault)
    return WHAT_TO_DO.get(fault.reason, str(fault))


def without_password(url: str) -> str:
    """Return the URL without credentials and, since some options are secret, without options."""
    scheme, _, rest = url.partition("://")
    if "@" in rest.partition("?")[2]:
        return f"{scheme}://..."
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def connected(redis_url: str) -> Any:
    """Return a client of Redis, which connects on first use. Raise `QueueError` if the URL is invalid."""
    try:
        return connect(redis_url)
    except RedisAddressError as error:
        raise QueueError(Reason.QUEUE_UNAVAILABLE, str(error)) from error
