"""A client that runs operations in its own process."""

from collections.abc import Awaitable, Callable
from typing import Any

from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.operation import AnyOperation, Handlers, OperationAnswer
from worker.injection.capacity import Capacity

from .client import ACK_S, BUDGET_S, OperationClient
from .job import attempt

Commit = Callable[[str, str], Awaitable[bool]]
"""Marks a turn as delivered, by the ledger's key and the turn's id. Returns whether the ledger knows the turn."""


class LocalOperationClient(OperationClient):
    """Runs operations in this process, within a capacity that others may share."""

    where = "this process"

    def __init__(self, handlers: Handlers, commit: Commit | None = None, *, capacity: Capacity | None = None) -> None:
        self._handlers = handlers
        self._commit = commit
        self._capacity = capacity or Capacity()

    async def ask(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        deadline = Deadline.after(budget)
        handler = self._handlers.get(operation.name)
        if handler is None:
            raise OperationError(Reason.BAD_REQUEST, f"unknown operation {operation.name}")
        return await attempt(handler, payload, deadline, budget, self._capacity)

    async def commit(self, delivered: tuple[str, str]) -> bool:
        return self._commit is not None and await self._commit(*delivered)
