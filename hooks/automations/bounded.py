"""Wait for work with a time limit, even if it resists cancellation."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Completion(Generic[T]):
    """The value or error of work; neither if `done` is false, because time ran out."""

    done: bool
    value: T | None = None
    error: BaseException | None = None


class Bounded:
    """Wait for work with a time limit. Cancel late work and count it in `hanging` until it ends."""

    def __init__(self) -> None:
        self._hanging: set[asyncio.Future[Any]] = set()

    @property
    def hanging(self) -> int:
        return len(self._hanging)

    async def within(self, work: Awaitable[T], end: float) -> Completion[T]:
        """Wait for `work` until `end`, in monotonic seconds."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task], timeout=max(0.0, end - time.monotonic()))
        finally:
            if not task.done():
                self._cancel(task)
        if not task.done():
            return Completion(False)
        if task.cancelled():
            return Completion(True, error=asyncio.CancelledError())
        error = task.exception()
        return Completion(True, error=error) if error is not None else Completion(True, task.result())

    def _cancel(self, task: "asyncio.Future[Any]") -> None:
        task.cancel()
        self._hanging.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Future[Any]") -> None:
        self._hanging.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not log it
