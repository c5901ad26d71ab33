"""A worker process for tests, with operations that misbehave on request: `python queue_worker.py URL [MAX_JOBS]`."""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hooks.contract import (
    InjectedItem,
    InjectionRequest,
    InjectionResult,
    Outcome,
    Reason,
    SessionEvent,
    SessionEventResult,
)
from tests.support.forked import Forked
from tests.support.paths import ROOT
from worker.adapters.local.host_state import MemoryHostState
from worker.adapters.local.subagents import MemorySubagents
from worker.adapters.redis.job_worker import MeeseeksWorker
from worker.domain.deadline import Deadline
from worker.domain.errors import StoreLocked
from worker.domain.fair_line import Caller
from worker.domain.operation import HandlerResult, JsonObject, Operation, Undelivered, by_name
from worker.injection.capacity import Capacity
from worker.operations.hosts import HostOperations, OwnHandlers
from worker.operations.registry import INJECT, SESSION_EVENT
from worker.settings.injection import Enrichment, InjectionConfig

STARTED_WITHIN_S = 30.0


async def echo(request: JsonObject, deadline: Deadline) -> JsonObject:
    return JsonObject({"payload": request.root, "left": deadline.remaining(), "pid": os.getpid()})


async def sleep(request: JsonObject, deadline: Deadline) -> JsonObject:
    """Sleep for `seconds`, and append a line to the file `trace` before and after."""
    _trace(request.root, "start")
    await asyncio.sleep(request.root["seconds"])
    _trace(request.root, "end")
    return JsonObject({"slept": request.root["seconds"], "pid": os.getpid()})


async def until_deadline(request: JsonObject, deadline: Deadline) -> JsonObject:
    """Answer at the deadline."""
    await asyncio.sleep(deadline.remaining())
    return JsonObject({"done": True})


async def compute(request: JsonObject, deadline: Deadline) -> JsonObject:
    """Take 20 ms, one request at a time, each agent in turn."""
    async with ROOM.turn(Caller("acme", request.root["agent"]), deadline):
        await asyncio.sleep(0.02)
    return JsonObject({"agent": request.root["agent"]})


async def crash(request: JsonObject, deadline: Deadline) -> JsonObject:
    raise ZeroDivisionError("secret text")


async def locked(request: JsonObject, deadline: Deadline) -> JsonObject:
    raise StoreLocked("another process owns it")


async def inject(request: InjectionRequest, deadline: Deadline) -> HandlerResult[InjectionResult]:
    """Return a block that repeats the message; some session ids select other results."""
    if request.session_id == "slow":
        await asyncio.sleep(30)
    if request.session_id == "broken":
        return InjectionResult.model_construct(outcome=7)  # type: ignore[arg-type]
    if request.session_id == "nothing":
        return InjectionResult.nothing(Outcome.NONE_RELEVANT, Reason.NOTHING_RECALLED)
    result = InjectionResult(
        outcome=Outcome.INJECTED,
        memory_context=f"<memory_context>{request.message}</memory_context>",
        items=(InjectedItem(id="m1", type="fact", text=request.message),),
        turn_id=request.turn_id,
    )
    ledger = request.scope.project
    return Undelivered(result, (ledger, request.turn_id)) if ledger else result


async def session_event(request: SessionEvent, deadline: Deadline) -> SessionEventResult:
    return SessionEventResult(done=True, forgotten=2)


INJECTION, EVENTS = INJECT.bind(inject), SESSION_EVENT.bind(session_event)
MISBEHAVING = (
    Operation(run.__name__, JsonObject, JsonObject).bind(run) for run in (echo, sleep, until_deadline, crash, locked)
)
HOSTS = HostOperations(
    OwnHandlers(INJECTION, EVENTS),
    MemorySubagents(),
    MemoryHostState(),
    lambda _: InjectionConfig(query_enrichment=Enrichment.OFF),
    lambda _: None,
)
COMPUTING = Operation("compute", JsonObject, JsonObject, queues=True).bind(compute)
HANDLERS = by_name((*HOSTS.handlers(), *MISBEHAVING, INJECTION, COMPUTING))
ROOM = Capacity(computing=1)


def _trace(payload: dict[str, Any], word: str) -> None:
    if "trace" in payload:
        with Path(payload["trace"]).open("a", encoding="utf-8") as file:
            file.write(word + "\n")


async def _start(_: dict[Any, Any]) -> None:
    await asyncio.sleep(float(os.environ.get("STARTUP_SECONDS", "0")))


def _say_it_serves() -> None:
    os.write(1, b"serving\n")


async def _bye(_: dict[Any, Any]) -> None:
    os.write(1, b"bye\n")


class RunningWorker(Forked):
    """A worker process."""

    def __init__(self, url: str, max_jobs: int, startup_s: float, folder: Path) -> None:
        self._out, self._log = folder / "out", folder / "log"
        self._out.touch()
        variables = {**os.environ, "STARTUP_SECONDS": str(startup_s)}
        super().__init__(
            [url, str(max_jobs)], ROOT, variables, out=self._out, log=self._log, program="tests.support.queue_worker"
        )

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def send_signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end and return what it wrote."""
        self.wait(timeout)
        return self._out.read_text(encoding="utf-8"), self._log.read_text(encoding="utf-8")

    def wait_until_serving(self) -> None:
        end = time.monotonic() + STARTED_WITHIN_S
        while not self._out.read_bytes().startswith(b"serving\n"):
            assert self.poll() is None, self._log.read_text(encoding="utf-8")
            assert time.monotonic() < end
            time.sleep(0.005)


@contextmanager
def running_worker(
    url: str, max_jobs: int = 20, *, startup_s: float = 0.0, wait: bool = True
) -> Iterator[RunningWorker]:
    """Run a worker process, which is serving on entry unless `wait` is off, and kill it on exit."""
    with TemporaryDirectory() as folder:
        process = RunningWorker(url, max_jobs, startup_s, Path(folder))
        try:
            if wait:
                process.wait_until_serving()
            yield process
        finally:
            process.kill()
            process.wait()


def main() -> None:
    MeeseeksWorker(
        HANDLERS,
        sys.argv[1],
        max_jobs=int(sys.argv[2]),
        on_startup=_start,
        on_serving=_say_it_serves,
        on_shutdown=_bye,
    ).run()


if __name__ == "__main__":
    main()
