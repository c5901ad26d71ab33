"""Whoever does operations for a door: the running service over Redis, or this process.

A door asks, delivers, and only then commits: a memory counts as shown once its block was delivered.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from hooks.contract import Reason
from hooks.queue import QueueClient, QueueFault
from worker.domain.deadline import Deadline
from worker.domain.errors import NotFound, OperationError, QueueError
from worker.domain.operation import Operation, OperationAnswer

from .job import attempt

BUDGET_S = 10.0
COMMIT_S = 1.0
ACK_S = 2.0
"""Seconds in which a worker must take up what somebody waits for by hand."""

MOST_WAITING = 200
"""Requests that may wait for their turn in this process before a new one is refused as busy."""

WHAT_TO_DO = {
    Reason.NO_WORKER: "no worker is running; start one with `meeseeks up` or `meeseeks worker`",
    Reason.NO_ACK: "the worker does not take up work; it is hung or overloaded",
    Reason.BUSY: "too many jobs are waiting already",
    Reason.DEADLINE: "the worker did not answer in time",
    Reason.QUEUE_UNAVAILABLE: "Redis cannot be reached; check MEESEEKS_REDIS_URL",
}


@dataclass(frozen=True, slots=True)
class QueueState:
    """What Redis says of the queue: how many jobs wait, and whether a worker has lately given a sign of life."""

    waiting: int
    alive: bool


Commit = Callable[[str, str], Awaitable[bool]]
"""Tells the ledger that a turn was delivered, by the ledger's key and the turn's id; whether it knew the turn."""


class OperationClient(Protocol):
    """Does operations by name; `where` says for people where. Raises `MeeseeksError` and nothing else of its own."""

    @property
    def where(self) -> str: ...

    async def ask(
        self, operation: str, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        """The result within `budget` seconds; what it says is to be committed is left to the caller."""
        ...

    async def commit(self, delivered: tuple[str, str]) -> bool:
        """Mark what an answer brought as delivered; `False` when that failed or the ledger knows nothing of it."""
        ...

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = BUDGET_S) -> dict[str, Any]:
        """The body of the result, which counts as delivered."""
        ...


class QueueOperationClient:
    """Sends operations to a worker. Raises `QueueError` with advice, and `NotFound`."""

    def __init__(self, client: QueueClient, url: str) -> None:
        self._client = client
        self.where = f"the service at {without_password(url)}"

    async def ask(
        self, operation: str, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        try:
            reply = await self._client.ask(operation, payload, budget=budget, ack_timeout=min(ack, budget))
        except QueueFault as fault:
            if fault.reason is Reason.NOT_FOUND:
                raise NotFound(str(fault)) from fault
            raise QueueError(fault.reason, WHAT_TO_DO.get(fault.reason, str(fault))) from fault
        return OperationAnswer(reply.body, reply.commit)

    async def commit(self, delivered: tuple[str, str]) -> bool:
        return await self._client.commit(*delivered, timeout=COMMIT_S)

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = BUDGET_S) -> dict[str, Any]:
        return await _delivered(self, await self.ask(operation, payload, budget=budget))


class LocalOperationClient:
    """Does operations in this process, at most `at_once` at a time."""

    where = "this process"

    def __init__(
        self, operations: Mapping[str, Operation], commit: Commit | None = None, *, at_once: int = MOST_WAITING
    ) -> None:
        self._operations = operations
        self._commit = commit
        self._turns = asyncio.Semaphore(at_once)
        self._waiting = 0

    async def ask(
        self, operation: str, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        deadline = Deadline.after(budget)
        wanted = self._operations.get(operation)
        if wanted is None:
            raise OperationError(Reason.BAD_REQUEST, f"there is no operation {operation}")
        await self._take_turn(deadline)
        try:
            return await attempt(wanted, payload, deadline, budget)
        finally:
            self._turns.release()

    async def _take_turn(self, deadline: Deadline) -> None:
        if self._waiting >= MOST_WAITING:
            raise OperationError(Reason.BUSY, "too many requests are waiting already")
        self._waiting += 1
        try:
            async with asyncio.timeout(deadline.remaining()):
                await self._turns.acquire()
        except TimeoutError as error:
            raise OperationError(Reason.DEADLINE, "the request waited for its turn until its time was up") from error
        finally:
            self._waiting -= 1

    async def commit(self, delivered: tuple[str, str]) -> bool:
        return self._commit is not None and await self._commit(*delivered)

    async def call(self, operation: str, payload: dict[str, Any], *, budget: float = BUDGET_S) -> dict[str, Any]:
        return await _delivered(self, await self.ask(operation, payload, budget=budget))


async def _delivered(backend: OperationClient, answer: OperationAnswer) -> dict[str, Any]:
    if answer.commit is not None:
        await backend.commit(answer.commit)
    return answer.body


def without_password(url: str) -> str:
    """An address that may be shown."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
