"""Run coroutines."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own and return its result, as `asyncio.run` does.

    `asyncio.run` formats the result as text twice when it restores the signal handler, which for large ones takes
    longer than the work itself; so the task that it runs has none.
    """
    results: list[T] = []

    async def keep() -> None:
        results.append(await work)

    asyncio.run(keep())
    return results[0]
