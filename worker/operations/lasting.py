"""Work that lasts until it is closed, such as a check that is made again and again."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from worker.domain.errors import MeeseeksError
from worker.domain.tasks import ended

log = structlog.get_logger()


def polled(name: str, once: Callable[[], Awaitable[bool]], every: float) -> "LastingWork":
    """Do `once` again and again: at once after it found something to do, else after `every` seconds."""

    async def poll() -> None:
        while True:
            try:
                found = await once()
            except MeeseeksError as error:
                log.warning("lasting_work_waits", work=name, reason=str(error))
                found = False
            await asyncio.sleep(0 if found else every)

    return LastingWork(name, poll)


class LastingWork:
    """Runs `work` in a task; an unforeseen error is logged, and the work begins again."""

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._name, self._work = name, work
        self._task = self._begun()

    def _begun(self) -> "asyncio.Task[None]":
        task = asyncio.create_task(self._work(), name=self._name)
        task.add_done_callback(self._again)
        return task

    def _again(self, ended: "asyncio.Task[None]") -> None:
        if not ended.cancelled():
            log.error("lasting_work_crashed", work=self._name, error=type(ended.exception()).__name__)
            self._task = self._begun()

    async def aclose(self) -> None:
        self._task.remove_done_callback(self._again)
        await ended(self._task)
