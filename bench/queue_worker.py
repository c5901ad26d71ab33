"""Workers whose only job sleeps: `python -m bench.queue_worker KIND REDIS_URL` says "ready" when it serves.

Kinds: `meeseeks` is this project's worker, the others are arq's own with its usual and with shorter poll delays.
"""

import asyncio
import os
import sys
from typing import Any, cast

from arq.connections import RedisSettings
from arq.typing import StartupShutdown, WorkerCoroutine
from arq.worker import Worker, func

from hooks.contract import InjectionResult, Outcome, Reason
from worker.adapters.redis.job_worker import MeeseeksWorker
from worker.domain.deadline import Deadline
from worker.domain.operation import OperationAnswer

MEESEEKS = "meeseeks"
POLL_S = {"arq, defaults": 0.5, "arq, tuned": 0.01}
"""Seconds between two looks of arq's worker at its queue, and of its caller at the result."""

MAX_JOBS = 20
JOB = "sleep"

_NOTHING = InjectionResult.nothing(Outcome.NONE_RELEVANT, Reason.NOTHING_RECALLED).model_dump(mode="json")


async def inject(payload: dict[str, Any], _deadline: Deadline) -> OperationAnswer:
    """Sleep for as many milliseconds as the message says, if any, and find nothing."""
    if payload["message"] != "0":
        await asyncio.sleep(int(payload["message"]) / 1000)
    return OperationAnswer(_NOTHING)


async def sleep(_context: dict[Any, Any], milliseconds: int) -> None:
    """The same as a job of arq."""
    if milliseconds:
        await asyncio.sleep(milliseconds / 1000)


async def _say_ready(_context: dict[Any, Any]) -> None:
    os.write(1, b"ready\n")


def main() -> None:
    kind, url = sys.argv[1:]
    if kind == MEESEEKS:
        MeeseeksWorker({"inject": inject}, url, max_jobs=MAX_JOBS, on_startup=_say_ready).run()
        return
    asyncio.set_event_loop(asyncio.new_event_loop())
    Worker(
        [func(cast("WorkerCoroutine", sleep), name=JOB)],
        queue_name=kind,
        redis_settings=RedisSettings.from_dsn(url),
        max_jobs=MAX_JOBS,
        poll_delay=POLL_S[kind],
        on_startup=cast("StartupShutdown", _say_ready),
    ).run()


if __name__ == "__main__":
    main()
