"""Base of the hooks that call the worker through Redis."""

from contextlib import suppress
from types import TracebackType
from typing import Self, TypeVar

from pydantic import ValidationError

from ..contract import Reason, WireModel
from .client import QueueClient, QueueFault, Reply
from .guarded import GuardedQueue

Model = TypeVar("Model", bound=WireModel)


class QueueHook:
    """Base of the hooks. One hook serves concurrent calls on any event loop."""

    def __init__(self, redis_url: str | None = None, *, queue: QueueClient | None = None) -> None:
        self._queue = queue or QueueClient(redis_url)
        self._guarded = GuardedQueue(self._queue)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._queue.aclose()

    async def __aenter__(self) -> Self:
        with suppress(QueueFault):
            await self._queue.warm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _ask(self, function: str, request: WireModel, kind: type[Model], budget: float) -> tuple[Model, Reply]:
        """Run a job and return its result as `kind`. Raise `QueueFault` if it fails."""
        payload = request.model_dump_json(exclude_none=True).encode()
        reply = await self._guarded.ask(function, payload, budget=budget)
        try:
            return kind.model_validate(reply.body), reply
        except ValidationError as error:
            raise QueueFault(Reason.BAD_REPLY) from error
