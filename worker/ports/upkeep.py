"""The protocol for what is kept about upkeep."""

from datetime import date, timedelta
from typing import Protocol

from worker.domain.upkeep import UpkeepRun


class UpkeepRuns(Protocol):
    """Keep runs, shared by all workers. Methods raise `QueueError`."""

    async def lead(self, worker: str, lease: timedelta) -> bool:
        """Return whether this worker may run until the lease ends; one at a time may."""
        ...

    async def release(self, worker: str) -> None:
        """Let another worker run."""
        ...

    async def write(self, run: UpkeepRun) -> None: ...

    async def read(self, tenant: str, run_id: str | None = None) -> UpkeepRun:
        """Return a run, or the latest of the tenant. Raise `NotFound`."""
        ...

    async def unfinished(self) -> list[UpkeepRun]:
        """Return the runs of all tenants that go on, or whose worker ended before they did."""
        ...

    async def night(self) -> date | None:
        """Return the day of the last nightly run."""
        ...

    async def note_night(self, day: date) -> None: ...
