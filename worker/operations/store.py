"""What can be asked about a whole store. Long work runs as a job of which there is one at a time; callers poll it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import structlog
from pydantic import Field

from hooks.contract import Text
from worker.domain.deadline import Deadline
from worker.domain.errors import MeeseeksError, MemoryRejected, StoreError
from worker.domain.memory import DomainModel
from worker.domain.operation import Operation, OperationAnswer
from worker.store.copying import Progress
from worker.store.maintenance import StoreMaintenance

STORE_INFO = "store_info"
STORE_JOB_START = "store_job_start"
STORE_JOB_STATUS = "store_job_status"

log = structlog.get_logger()

_Work = Callable[[], Awaitable[dict[str, Any]]]


class JobKind(StrEnum):
    REINDEX = "reindex"
    ROLLBACK = "rollback"
    PRUNE = "prune"
    BACKUP = "backup"
    RESTORE = "restore"
    MIGRATE = "migrate"


class JobPayload(DomainModel):
    """What is to be done; each kind reads the fields that it knows. Paths are on the machine of the service."""

    kind: JobKind
    embedder: Text | None = None
    path: Path | None = None
    to: Text | None = None
    force: bool = False
    min_overlap: float = Field(default=0.3, ge=0.0, le=1.0)


@dataclass
class _Job:
    """A job and what has become of it."""

    kind: JobKind
    id: str = field(default_factory=lambda: uuid4().hex[:12])
    progress: Progress = field(default_factory=Progress)
    result: dict[str, Any] | None = None
    error: str | None = None
    task: "asyncio.Task[None] | None" = None


class StoreOperations:
    """Decode, start, encode. Close it before the store."""

    def __init__(self, maintenance: StoreMaintenance) -> None:
        self._maintenance = maintenance
        self._job: _Job | None = None

    def table(self) -> dict[str, Operation]:
        """Every operation by the name of its job."""
        return {STORE_INFO: self.info, STORE_JOB_START: self.start, STORE_JOB_STATUS: self.status}

    async def info(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        return OperationAnswer({**await self._maintenance.info(), "job": self._status()})

    async def start(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        """Begin a job. Raises `StoreError` while another one runs."""
        wanted = JobPayload.model_validate(payload)
        if self._job is not None and self._job.task is not None and not self._job.task.done():
            raise StoreError(f"a {self._job.kind} is running; wait for it to end")
        job = _Job(wanted.kind)
        work = self._work(wanted, job.progress)
        self._job = job
        job.task = asyncio.create_task(_run(job, work), name=f"store-{wanted.kind}")
        return OperationAnswer(self._status())

    async def status(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        return OperationAnswer(self._status())

    async def aclose(self) -> None:
        """Break off the running job; what it copied is found when it is begun again."""
        if self._job is not None and self._job.task is not None:
            self._job.task.cancel()
            await asyncio.wait([self._job.task])

    def _work(self, wanted: JobPayload, progress: Progress) -> _Work:
        """What is to be done, not begun yet. Raises `MemoryRejected` where something is missing."""
        maintenance = self._maintenance
        match wanted:
            case JobPayload(kind=JobKind.REINDEX):
                options: dict[str, Any] = {"force": wanted.force, "min_overlap": wanted.min_overlap}
                return partial(maintenance.reindex, progress, embedder=wanted.embedder, **options)
            case JobPayload(kind=JobKind.ROLLBACK):
                return partial(maintenance.rollback, progress, embedder=wanted.embedder)
            case JobPayload(kind=JobKind.PRUNE):
                return partial(maintenance.prune, progress)
            case JobPayload(kind=JobKind.BACKUP, path=Path() as path):
                return partial(maintenance.backup, progress, path)
            case JobPayload(kind=JobKind.RESTORE, path=Path() as path):
                return partial(maintenance.restore, progress, path, force=wanted.force)
            case JobPayload(kind=JobKind.MIGRATE, to=str() as to):
                return partial(maintenance.migrate, progress, to, force=wanted.force)
        raise MemoryRejected(f"a {wanted.kind} needs to know where")

    def _status(self) -> dict[str, Any]:
        job = self._job
        if job is None or job.task is None:
            return {"state": "none"}
        state = "running" if not job.task.done() else "done" if job.result is not None else "failed"
        told = {"id": job.id, "kind": job.kind.value, "state": state, **asdict(job.progress)}
        return {**told, "result": job.result, "error": job.error or _crash(job.task)}


async def _run(job: _Job, work: _Work) -> None:
    try:
        job.result = await work()
        log.info("store_job_done", kind=job.kind.value)
    except MeeseeksError as error:
        job.error = str(error)
        log.error("store_job_failed", kind=job.kind.value, error=job.error)


def _crash(task: "asyncio.Task[None]") -> str | None:
    """What nobody foresaw ended the job, by its kind."""
    if not task.done() or task.cancelled():
        return None
    error = task.exception()
    return None if error is None else type(error).__name__
