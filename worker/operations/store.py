"""Handlers for the store as a whole. Maintenance runs as one background job at a time, whose state callers poll."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog

from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, MemoryRejected, StoreError
from worker.domain.operation import AnyHandler
from worker.store.copying import Progress
from worker.store.maintenance import StoreMaintenance

from .registry import STORE_INFO, STORE_JOB_START, STORE_JOB_STATUS
from .requests import JobKind, NoRequest, StoreJobRequest
from .results import StoreInfoResult, StoreJobResult

log = structlog.get_logger()

_Work = Callable[[], Awaitable[dict[str, Any]]]


@dataclass
class _Job:
    kind: JobKind
    id: str = field(default_factory=lambda: uuid4().hex[:12])
    progress: Progress = field(default_factory=Progress)
    result: dict[str, Any] | None = None
    error: str | None = None
    task: "asyncio.Task[None] | None" = None


class StoreOperations:
    """Close it before the store."""

    def __init__(self, maintenance: StoreMaintenance) -> None:
        self._maintenance = maintenance
        self._job: _Job | None = None

    def handlers(self) -> tuple[AnyHandler, ...]:
        return STORE_INFO.bind(self.info), STORE_JOB_START.bind(self.start), STORE_JOB_STATUS.bind(self.status)

    async def info(self, request: NoRequest, deadline: Deadline) -> StoreInfoResult:
        return StoreInfoResult(**await self._maintenance.info(), job=self._state())

    async def start(self, request: StoreJobRequest, deadline: Deadline) -> StoreJobResult:
        """Start a job. Raise `StoreError` while another one runs."""
        if self._job is not None and self._job.task is not None and not self._job.task.done():
            raise StoreError(f"a {self._job.kind} is running; wait for it to end")
        job = _Job(request.kind)
        work = self._work(request, job.progress)
        self._job = job
        job.task = asyncio.create_task(_run(job, work), name=f"store-{request.kind}")
        return self._state()

    async def status(self, request: NoRequest, deadline: Deadline) -> StoreJobResult:
        return self._state()

    async def aclose(self) -> None:
        """Cancel the running job. Starting it again reuses what it has copied."""
        if self._job is not None and self._job.task is not None:
            self._job.task.cancel()
            await asyncio.wait([self._job.task])

    def _work(self, request: StoreJobRequest, progress: Progress) -> _Work:
        maintenance = self._maintenance
        match request:
            case StoreJobRequest(kind=JobKind.REINDEX):
                options: dict[str, Any] = {"force": request.force, "min_overlap": request.min_overlap}
                return partial(maintenance.reindex, progress, embedder=request.embedder, **options)
            case StoreJobRequest(kind=JobKind.ROLLBACK):
                return partial(maintenance.rollback, progress, embedder=request.embedder)
            case StoreJobRequest(kind=JobKind.PRUNE):
                return partial(maintenance.prune, progress)
            case StoreJobRequest(kind=JobKind.BACKUP, path=Path() as path):
                return partial(maintenance.backup, progress, path)
            case StoreJobRequest(kind=JobKind.RESTORE, path=Path() as path):
                return partial(maintenance.restore, progress, path, force=request.force)
            case StoreJobRequest(kind=JobKind.MIGRATE, to=str() as to):
                return partial(maintenance.migrate, progress, to, force=request.force)
        raise MemoryRejected(f"a {request.kind} needs {'an address' if request.kind is JobKind.MIGRATE else 'a path'}")

    def _state(self) -> StoreJobResult:
        job = self._job
        if job is None or job.task is None:
            return StoreJobResult(state="none")
        state = "running" if not job.task.done() else "done" if job.result is not None else "failed"
        return StoreJobResult(
            state=state,
            id=job.id,
            kind=job.kind.value,
            result=job.result,
            error=job.error or _crash(job.task),
            **asdict(job.progress),
        )


async def _run(job: _Job, work: _Work) -> None:
    try:
        job.result = await work()
        log.info("store_job_done", kind=job.kind.value)
    except MeeseeksError as error:
        job.error = str(error)
        log.error("store_job_failed", kind=job.kind.value, error=job.error)


def _crash(task: "asyncio.Task[None]") -> str | None:
    """Return the type of the unexpected exception that ended the job."""
    if not task.done() or task.cancelled():
        return None
    error = task.exception()
    return None if error is None else type(error).__name__
