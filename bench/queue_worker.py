"""Workers whose only job sleeps: `python -m bench.queue_worker KIND REDIS_URL` prints "ready" once it serves.

`meeseeks` is the worker of this project, other kinds are plain arq with default or shorter poll delays.
"""

import asyncio
import os
import sys
from typing import Any, cast

from arq.connections import RedisSettings
from arq.typing import StartupShutdown, WorkerCoroutine
from arq.worker import Worker, func

from hooks.contract import InjectionRequest, InjectionResult, Outcome, Reason
from worker.adapters.redis.job_worker import MeeseeksWorker
from worker.domain.deadline import Deadline
from worker.operations.registry import INJECT

MEESEEKS = "meeseeks"
POLL_S = {"arq, defaults": 0.5, "arq, tuned": 0.01}
"""Poll delays in seconds, of arq's worker and of its caller."""

MAX_JOBS = 20
JOB = "sleep"

_NOTHING = InjectionResult.nothing(Outcome.NONE_RELEVANT, Reason.NOTHING_RECALLED)


async def inject(request: InjectionRequest, _deadline: Deadline) -> InjectionResult:
    """Sleep for the milliseconds in the message and find nothing."""
    if request.message != "0":
        await asyncio.sleep(int(request.message) / 1000)
    return _NOTHING


async def sleep(_context: dict[Any, Any], milliseconds: int) -> None:
    """Sleep, as an arq job."""
    if milliseconds:
        await asyncio.sleep(milliseconds / 1000)


async def _say_ready(_context: dict[Any, Any]) -> None:
    os.write(1, b"ready\n")


def main() -> None:
    kind, url = sys.argv[1:]
    if kind == MEESEEKS:
        MeeseeksWorker({INJECT.name: INJECT.bind(inject)}, url, max_jobs=MAX_JOBS, on_startup=_say_ready).run()
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
