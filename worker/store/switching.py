"""Replace the handlers of operations while requests come in, without refusing any."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from worker.domain.deadline import Deadline
from worker.domain.operation import AnyHandler, AnyOperation, Handlers

LONGEST_USE = 65.0
"""Seconds to wait for calls of replaced handlers."""


class WriteBarrier:
    """Lets writers run, or holds them back while nothing may change."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = 0

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Enter the block once the barrier is open, and count as a writer inside it."""
        while not self._open.is_set():
            await self._open.wait()
        self._writing += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._writing -= 1
            if self._writing == 0:
                self._idle.set()

    @asynccontextmanager
    async def closed(self) -> AsyncIterator[None]:
        """Enter the block once the running writers have ended, and hold back new ones inside it."""
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()


class _Generation:
    """Handlers, and how many of their calls are running."""

    def __init__(self, handlers: Handlers) -> None:
        self.handlers = handlers
        self._running = 0
        self.idle = asyncio.Event()
        self.idle.set()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        self._running += 1
        self.idle.clear()
        try:
            yield
        finally:
            self._running -= 1
            if self._running == 0:
                self.idle.set()


class OperationSwitch:
    """Handlers that can be replaced while requests run. Operations that write pass the write barrier."""

    def __init__(self, write_barrier: WriteBarrier, handlers: Handlers) -> None:
        self._write_barrier = write_barrier
        self._current = _Generation(handlers)

    def handlers(self) -> dict[str, AnyHandler]:
        """Return handlers that stay valid when others replace the ones behind them."""
        return {
            name: replace(handler, run=partial(self._call, handler.operation))
            for name, handler in self._current.handlers.items()
        }

    def use(self, handlers: Handlers) -> asyncio.Event:
        """Use these handlers from now on. Return an event that is set once no call of the former ones runs."""
        former, self._current = self._current, _Generation(handlers)
        return former.idle

    async def _call(self, operation: AnyOperation, request: Any, deadline: Deadline) -> Any:
        async with self._write_barrier.writing() if operation.writes else nullcontext():
            current = self._current
            with current.in_use():
                return await operation.handler_in(current.handlers).run(request, deadline)
