"""Background work, such as writing receipts: limited in time and number, finished at shutdown."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import structlog

from worker.domain.errors import MeeseeksError

log = structlog.get_logger()

LIMIT = 2.0
"""Seconds one task may take."""

MAX_PENDING = 500
"""Pending tasks; more are dropped and logged."""


class BackgroundTasks:
    """Run coroutines in the background; log failures instead of raising them."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        if len(self._tasks) >= MAX_PENDING:
            work.close()
            log.warning("background_work_dropped", work=name, pending=len(self._tasks))
            return
        task = asyncio.create_task(_bounded(name, work), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def drain(self) -> None:
        """Wait for all spawned tasks."""
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.error("background_work_crashed", work=task.get_name(), error=type(error).__name__)


async def _bounded(name: str, work: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.timeout(LIMIT):
            await work
    except (OSError, MeeseeksError) as error:  # a timeout is an OSError
        log.warning("background_work_failed", work=name, error=type(error).__name__)
