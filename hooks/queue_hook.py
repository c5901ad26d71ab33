"""What every hook that asks through Redis has: its queue, guarded, and the connections to it."""

from contextlib import suppress
from types import TracebackType
from typing import Self

from .guarded_queue import GuardedQueue
from .queue import QueueClient, QueueFault


class QueueHook:
    """Base of the hooks. One serves any number of calls at a time, on any event loop."""

    def __init__(self, redis_url: str | None = None, *, queue: QueueClient | None = None) -> None:
        self._queue = queue or QueueClient(redis_url)
        self._guarded = GuardedQueue(self._queue)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._queue.aclose()

    async def __aenter__(self) -> Self:
        with suppress(QueueFault):
            await self._queue.warm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
