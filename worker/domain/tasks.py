"""How asyncio tasks end."""

import asyncio
from typing import Any

AGAIN_S = 0.5
"""Seconds before a task that still runs is cancelled again."""


async def ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks until all of them have ended.

    Once is not enough: `asyncio.wait_for` of Python 3.11, which Redis clients use, loses a cancellation that arrives as
    it ends.
    """
    running = set(tasks)
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_S)


def drop(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks whose outcome nobody waits for, so that asyncio does not log their errors."""
    for task in tasks:
        task.cancel()
        task.add_done_callback(_retrieve)


def _retrieve(task: "asyncio.Future[Any]") -> None:
    if not task.cancelled():
        task.exception()
