"""A worker process for tests, with operations that misbehave on request: `python queue_worker.py URL [MAX_JOBS]`."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis

from hooks import wire
from hooks.contract import InjectedItem, InjectionResult, Outcome, Reason, SessionEventResult
from tests.support.paths import ROOT
from worker.adapters.local.subagents import MemorySubagents
from worker.adapters.redis.job_worker import MeeseeksWorker
from worker.domain.deadline import Deadline
from worker.domain.errors import StoreLocked
from worker.domain.operation import OperationAnswer
from worker.operations.hosts import HostOperations


async def echo(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    return OperationAnswer({"payload": payload, "left": deadline.remaining(), "pid": os.getpid()})


async def sleep(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    """Sleep for `seconds`, and leave a line in the file `trace` before and after."""
    _trace(payload, "start")
    await asyncio.sleep(payload["seconds"])
    _trace(payload, "end")
    return OperationAnswer({"slept": payload["seconds"], "pid": os.getpid()})


async def until_deadline(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    """Use the whole of the deadline that it is given, and answer then."""
    await asyncio.sleep(deadline.remaining())
    return OperationAnswer({"done": True})


async def crash(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    raise ZeroDivisionError("secret text")


async def locked(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    raise StoreLocked("another process owns it")


async def inject(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    """A block that repeats the message; the session's name picks other answers."""
    if payload["session_id"] == "slow":
        await asyncio.sleep(30)
    if payload["session_id"] == "broken":
        return OperationAnswer({"outcome": 7})
    if payload["session_id"] == "nothing":
        return OperationAnswer(
            InjectionResult.nothing(Outcome.NONE_RELEVANT, Reason.NOTHING_RECALLED).model_dump(mode="json")
        )
    result = InjectionResult(
        outcome=Outcome.INJECTED,
        memory_context=f"<memory_context>{payload['message']}</memory_context>",
        items=(InjectedItem(id="m1", type="fact", text=payload["message"]),),
        turn_id=payload.get("turn_id"),
    )
    key = payload.get("scope", {}).get("project")
    commit = (key, payload["turn_id"]) if key else None
    return OperationAnswer(result.model_dump(mode="json"), commit)


async def session_event(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
    return OperationAnswer(SessionEventResult(done=True, forgotten=2).model_dump(mode="json"))


OPERATIONS = {
    **HostOperations(inject, session_event, MemorySubagents()).table(),
    "echo": echo,
    "sleep": sleep,
    "until_deadline": until_deadline,
    "crash": crash,
    "locked": locked,
    "inject": inject,
}


def _trace(payload: dict[str, Any], word: str) -> None:
    if "trace" in payload:
        with Path(payload["trace"]).open("a", encoding="utf-8") as file:
            file.write(word + "\n")


async def _ready(_: dict[Any, Any]) -> None:
    await asyncio.sleep(float(os.environ.get("STARTUP_SECONDS", "0")))
    os.write(1, b"ready\n")


async def _bye(_: dict[Any, Any]) -> None:
    os.write(1, b"bye\n")


@contextmanager
def running_worker(
    url: str, max_jobs: int = 20, *, startup_s: float = 0.0, wait: bool = True
) -> Iterator["subprocess.Popen[str]"]:
    """A worker process that serves by now, unless `wait` is off; it is killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-P", __file__, url, str(max_jobs)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "STARTUP_SECONDS": str(startup_s)},
    )
    try:
        if wait:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line == "ready\n", process.communicate()[1]
            _wait_for_life_sign(url)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def _wait_for_life_sign(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        for _ in range(1000):
            if client.exists(wire.ALIVE):
                return
            time.sleep(0.005)
    raise AssertionError("the worker never said that it is alive")


def main() -> None:
    MeeseeksWorker(OPERATIONS, sys.argv[1], max_jobs=int(sys.argv[2]), on_startup=_ready, on_shutdown=_bye).run()


if __name__ == "__main__":
    main()
