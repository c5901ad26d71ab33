"""Lets what answers requests be exchanged while requests come in: none is refused, none is answered by a mixture."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from worker.domain.deadline import Deadline
from worker.domain.operation import Operation, OperationAnswer

LONGEST_USE = 65.0
"""Seconds after which whoever still uses what was exchanged is not waited for any longer."""


class WriteBarrier:
    """Lets writers through, or holds them back while nothing may change."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writing = 0

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Within the block, a writer; it begins once the gate is open."""
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
        """Within the block, nobody writes; the block begins when the running writers have ended."""
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()


class _Table:
    """Operations, and how many of their calls are running."""

    def __init__(self, operations: Mapping[str, Operation]) -> None:
        self.operations = operations
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
    """Stands in for a table of operations; `writes` names those that go through the gate."""

    def __init__(
        self, write_barrier: WriteBarrier, writes: Collection[str], operations: Mapping[str, Operation]
    ) -> None:
        self._write_barrier = write_barrier
        self._writes = frozenset(writes)
        self._current = _Table(operations)

    def table(self) -> dict[str, Operation]:
        """Operations that stay the same whatever is behind them."""
        return {name: partial(self._call, name) for name in self._current.operations}

    def use(self, operations: Mapping[str, Operation]) -> asyncio.Event:
        """Answer with these from now on; the event is set once no call of the former ones runs."""
        former, self._current = self._current, _Table(operations)
        return former.idle

    async def _call(self, name: str, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        if name in self._writes:
            async with self._write_barrier.writing():
                return await self._run(name, payload, deadline)
        return await self._run(name, payload, deadline)

    async def _run(self, name: str, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        current = self._current
        with current.in_use():
            return await current.operations[name](payload, deadline)
