"""Waiting that ends in time, even for work that does not let itself be cancelled."""

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Ended(Generic[T]):
    """How work ended by the time: with a value, with an error, or where `done` is false not at all."""

    done: bool
    value: T | None = None
    error: BaseException | None = None


class Bounded:
    """Waits for work; what did not end in time is cancelled, counted while it still hangs, and never waited for."""

    def __init__(self) -> None:
        self._hanging: set[asyncio.Future[Any]] = set()

    @property
    def hanging(self) -> int:
        return len(self._hanging)

    async def within(self, work: Awaitable[T], end: float) -> Ended[T]:
        """Wait for `work` until `end`, in monotonic seconds."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait([task], timeout=max(0.0, end - time.monotonic()))
        finally:
            if not task.done():
                self._give_up(task)
        if not task.done():
            return Ended(False)
        if task.cancelled():
            return Ended(True, error=asyncio.CancelledError())
        error = task.exception()
        return Ended(True, error=error) if error is not None else Ended(True, task.result())

    def _give_up(self, task: "asyncio.Future[Any]") -> None:
        task.cancel()
        self._hanging.add(task)
        task.add_done_callback(self._forget)

    def _forget(self, task: "asyncio.Future[Any]") -> None:
        self._hanging.discard(task)
        if not task.cancelled():
            task.exception()  # looked at, so that nothing is logged about it
