"""Work in the background: failures are logged, and none ends what waits for the rest."""

import asyncio

from structlog.testing import capture_logs

from worker.domain.errors import StoreError
from worker.injection.background import BackgroundTasks


async def test_no_failure_escapes_the_drain() -> None:
    done: list[str] = []

    async def fail(error: Exception) -> None:
        raise error

    async def succeed() -> None:
        await asyncio.sleep(0.01)
        done.append("late")

    tasks = BackgroundTasks()
    with capture_logs() as logs:
        for error in (OSError(28, "No space left on device"), StoreError("away"), KeyError("unforeseen")):
            tasks.spawn("receipt", fail(error))
        tasks.spawn("receipt", succeed())
        await tasks.drain()
    assert done == ["late"]
    told = sorted((entry["event"], entry["error"]) for entry in logs)
    assert told == [
        ("background_work_crashed", "KeyError"),
        ("background_work_failed", "OSError"),
        ("background_work_failed", "StoreError"),
    ]
