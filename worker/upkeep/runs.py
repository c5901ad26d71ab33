"""One run of upkeep: read, plan, keep the plan, and only then change anything.

The plan is kept before the first change, so that a run that was killed goes on where it ended. One worker runs at a
time; its lease ends with it.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from time import monotonic
from typing import Any

import structlog

from hooks.contract import Reason
from worker.domain.errors import MeeseeksError, NotFound, OperationError
from worker.domain.tasks import ended
from worker.domain.upkeep import RunState, StepKind, StepState, UpkeepRun, UpkeepStep
from worker.ports.upkeep import UpkeepRuns

from .planning import PlanParts, UpkeepPlanner
from .scan import Scan

BATCH = 20
"""Steps made at a time, between which other writers come in."""

LEASE_S = 60.0
NOTE_S = 1.0
"""Seconds between notes of the progress, which renew the lease."""

GIVES_UP_WITHIN_S, LOOK_S = 1.0, 0.02
"""Seconds that an ended run may take to give up its lease, and seconds between looks."""

ENDED = "the service ended before the run did"
BUSY = "another run of upkeep goes on; `meeseeks upkeep --last` shows it"

log = structlog.get_logger()

Make = Callable[[UpkeepRun, Sequence[UpkeepStep]], Awaitable[list[UpkeepStep]]]


@dataclass(frozen=True, slots=True)
class RunParts:
    """`make` makes steps within the service, and returns what became of them."""

    plan: PlanParts
    runs: UpkeepRuns
    make: Make
    clock: Callable[[], datetime]


class UpkeepRunner:
    """Runs one at a time; close it before the parts."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._name = uuid.uuid4().hex
        self._task: asyncio.Task[None] | None = None

    async def start(self, tenant: str, *, apply: bool) -> UpkeepRun:
        """Begin a run, or go on with one that did not end. Raise `OperationError` while another one goes on."""
        if not await self._may_begin():
            raise OperationError(Reason.CONFLICT, BUSY)
        run = await self._left(tenant, apply=apply) or self._new(tenant, apply=apply)
        await self._parts.runs.write(run)
        self._begin(self._led(partial(self._run, run)))
        return run

    async def night(self, *, apply: bool) -> bool:
        """Run for all tenants, one after the other; return `False` if another worker does."""
        if self._is_running() or not await self._leads():
            return False
        await self._begin(self._led(partial(self._run_all, apply=apply)))
        return True

    async def resume(self) -> bool:
        """Go on with a run whose worker ended before it did; return whether there was one."""
        if self._is_running() or not (waiting := await self._parts.runs.unfinished()) or not await self._leads():
            return False
        run = waiting[0]
        if run.apply:
            await self._begin(self._led(partial(self._run, run)))
        else:
            await self._parts.runs.write(run.model_copy(update={"state": RunState.FAILED, "error": ENDED}))
            await self._parts.runs.release(self._name)
        return True

    async def aclose(self) -> None:
        if self._task is not None and not self._task.done():
            await ended(self._task)

    def _new(self, tenant: str, *, apply: bool, nightly: bool = False) -> UpkeepRun:
        made = f"u{uuid.uuid4().hex[:16]}"
        return UpkeepRun(id=made, tenant=tenant, at=self._parts.clock(), apply=apply, nightly=nightly)

    async def _left(self, tenant: str, *, apply: bool) -> UpkeepRun | None:
        """Return the tenant's last run if it has begun to change memories and did not end."""
        try:
            last = await self._parts.runs.read(tenant)
        except NotFound:
            return None
        over = last.state in (RunState.DONE, RunState.UNDONE)
        if over or not (apply and last.apply and last.planned):
            return None
        return last.model_copy(update={"state": RunState.RUNNING, "error": None})

    def _begin(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        self._task = asyncio.create_task(work, name="upkeep")
        self._task.add_done_callback(_log_crash)
        return self._task

    async def _may_begin(self) -> bool:
        """Return whether this worker may begin a run; one that is shown as ended gives up its lease a moment later."""
        end = monotonic() + GIVES_UP_WITHIN_S
        while self._is_running() or not await self._leads():
            if monotonic() > end or await self._parts.runs.unfinished():
                return False
            await asyncio.sleep(LOOK_S)
        return True

    def _is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    async def _leads(self) -> bool:
        return await self._parts.runs.lead(self._name, timedelta(seconds=LEASE_S))

    async def _led(self, work: "Callable[[_Progress], Awaitable[None]]") -> None:
        """Do the work while the lease is renewed and the progress is kept."""
        progress = _Progress()
        noting = asyncio.create_task(self._note(progress), name="upkeep-progress")
        try:
            await work(progress)
        finally:
            await ended(noting)
        await self._parts.runs.release(self._name)

    async def _run_all(self, progress: "_Progress", *, apply: bool) -> None:
        scans = await UpkeepPlanner(self._parts.plan, progress.take).scans(self._parts.clock())
        for tenant in sorted(scans):
            await self._run(self._new(tenant, apply=apply, nightly=True), progress, scans.pop(tenant))

    async def _run(self, run: UpkeepRun, progress: "_Progress", scan: Scan | None = None) -> None:
        began = monotonic()
        progress.take(run)
        try:
            if not run.planned:
                progress.take(await UpkeepPlanner(self._parts.plan, progress.take).plan(run, scan))
            if run.apply:
                await self._parts.runs.write(progress.known(run))
                await self._make(progress, run)
            final = progress.known(run).model_copy(update={"state": RunState.DONE})
        except MeeseeksError as error:
            log.warning("upkeep_failed", error=type(error).__name__)
            final = progress.known(run).model_copy(update={"state": RunState.FAILED, "error": str(error)})
        final = final.model_copy(update={"seconds": round(run.seconds + monotonic() - began, 1)})
        async with progress.lock:
            progress.run = None
            await self._parts.runs.write(final)
        log.info("upkeep_ended", state=final.state.value, memories=final.memories, steps=len(final.steps))

    async def _make(self, progress: "_Progress", run: UpkeepRun) -> None:
        steps = list(progress.known(run).steps)
        for start, end in _batches(steps):
            if any(step.state is StepState.PLANNED for step in steps[start:end]):
                steps[start:end] = await self._parts.make(progress.known(run), steps[start:end])
            done = {"steps": tuple(steps), "phase": "applying", "done": end, "total": len(steps)}
            progress.take(progress.known(run).model_copy(update=done))

    async def _note(self, progress: "_Progress") -> None:
        """Keep the progress and renew the lease, again and again."""
        while True:
            await asyncio.sleep(NOTE_S)
            try:
                await self._leads()
                async with progress.lock:
                    if progress.run is not None:
                        await self._parts.runs.write(progress.run)
            except MeeseeksError as error:
                log.warning("upkeep_progress_unknown", reason=str(error))


def _batches(steps: Sequence[UpkeepStep]) -> Iterator[tuple[int, int]]:
    """Return where batches begin and end; the proposals, which come last, are kept all at once."""
    changes = sum(step.kind is not StepKind.PROPOSE for step in steps)
    for start in range(0, changes, BATCH):
        yield start, min(changes, start + BATCH)
    if changes < len(steps):
        yield changes, len(steps)


def _log_crash(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("upkeep_crashed", error=type(error).__name__)


@dataclass(slots=True)
class _Progress:
    """The run as it is, `None` between two; `lock` keeps its end from being overwritten."""

    run: UpkeepRun | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def take(self, run: UpkeepRun) -> None:
        self.run = run

    def known(self, run: UpkeepRun) -> UpkeepRun:
        return self.run or run
