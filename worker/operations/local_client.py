"""A client that runs operations in its own process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.operation import AnyOperation, Handlers, OperationAnswer

from .client import ACK_S, BUDGET_S, OperationClient
from .job import attempt

MOST_WAITING = 200
"""Requests that may wait for their turn; further ones are refused as busy."""

Commit = Callable[[str, str], Awaitable[bool]]
"""Marks a turn as delivered, by the ledger's key and the turn's id. Returns whether the ledger knows the turn."""


class LocalOperationClient(OperationClient):
    """Runs operations in this process, at most `at_once` at a time."""

    where = "this process"

    def __init__(self, handlers: Handlers, commit: Commit | None = None, *, at_once: int = MOST_WAITING) -> None:
        self._handlers = handlers
        self._commit = commit
        self._turns = asyncio.Semaphore(at_once)
        self._waiting = 0

    async def ask(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        deadline = Deadline.after(budget)
        handler = self._handlers.get(operation.name)
        if handler is None:
            raise OperationError(Reason.BAD_REQUEST, f"unknown operation {operation.name}")
        await self._take_turn(deadline)
        try:
            return await attempt(handler, payload, deadline, budget)
        finally:
            self._turns.release()

    async def _take_turn(self, deadline: Deadline) -> None:
        if self._waiting >= MOST_WAITING:
            raise OperationError(Reason.BUSY, "too many requests are waiting; try again later")
        self._waiting += 1
        try:
            async with asyncio.timeout(deadline.remaining()):
                await self._turns.acquire()
        except TimeoutError as error:
            raise OperationError(Reason.DEADLINE, "no capacity before the deadline") from error
        finally:
            self._waiting -= 1

    async def commit(self, delivered: tuple[str, str]) -> bool:
        return self._commit is not None and await self._commit(*delivered)
