"""The protocol for what is kept about captures."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from worker.domain.capture import (
    CaptureProgress,
    CaptureReceipt,
    CaptureSource,
    CaptureWork,
    Proposal,
    Refusal,
    TranscriptWork,
)


class CaptureStore(Protocol):
    """Keep captures, proposals and refusals, shared by all workers. Methods raise `QueueError`."""

    async def captured(self, source: CaptureSource, keys: Sequence[str]) -> frozenset[str]:
        """Return which of these turns of the source's user were captured."""
        ...

    async def begin(self, receipt: CaptureReceipt) -> CaptureReceipt:
        """Keep a capture that is about to be written, and return it, or the one that is kept under its id."""
        ...

    async def finish(self, receipt: CaptureReceipt, proposals: Sequence[Proposal]) -> None:
        """Keep the final receipt and the proposals, and mark the turns as captured, all or nothing."""
        ...

    async def change(self, receipt: CaptureReceipt) -> None:
        """Replace a kept receipt."""
        ...

    async def read(self, tenant: str, capture_id: str) -> CaptureReceipt:
        """Raise `NotFound` for an unknown capture."""
        ...

    async def recent(self, tenant: str, limit: int) -> list[CaptureReceipt]:
        """Return the newest captures of a tenant that found anything."""
        ...

    async def proposals(self, tenant: str, now: datetime) -> list[Proposal]:
        """Return the proposals that wait, oldest first; expired ones are removed."""
        ...

    async def take(self, tenant: str, proposal_ids: Collection[str]) -> None:
        """Remove these proposals."""
        ...

    async def refuse(self, tenant: str, refusals: Sequence[Refusal]) -> None: ...

    async def allow(self, tenant: str, refusals: Sequence[Refusal]) -> None:
        """Forget refusals of the same texts."""
        ...

    async def refusals(self, tenant: str) -> list[Refusal]: ...

    async def salt(self) -> str:
        """Return the key of fingerprints, the same for all workers."""
        ...


class TranscriptQueue(Protocol):
    """Keep which transcripts are to be read, shared by all workers. Methods raise `QueueError`."""

    async def put(self, work: TranscriptWork, due: datetime, *, sooner: bool) -> None:
        """Keep a transcript until it is `due`; one that waits keeps its time, or with `sooner` the earlier one."""
        ...

    async def claim(self, now: datetime, lease: timedelta) -> TranscriptWork | None:
        """Return a transcript that is due, which nobody else gets until the lease ends."""
        ...

    async def again(self, work: TranscriptWork, due: datetime) -> None:
        """Keep a transcript for another attempt."""
        ...

    async def done(self, work: TranscriptWork, leased: datetime) -> None:
        """Forget a transcript that was claimed until `leased`, unless it was put again meanwhile."""
        ...


class CaptureQueue(Protocol):
    """Keep what models read later, shared by all workers, and count it by day. Methods raise `QueueError`."""

    async def put(self, work: CaptureWork, due: datetime) -> None:
        """Keep a piece of work, instead of one with its id."""
        ...

    async def claim(self, now: datetime, lease: timedelta) -> CaptureWork | None:
        """Return work that is due, which nobody else gets until the lease ends."""
        ...

    async def done(self, work_id: str) -> None: ...

    async def take_call(self, now: datetime, tokens: int) -> bool:
        """Count a call and its estimated tokens before it is made; return `False` if a limit of the day is reached."""
        ...

    async def read(self, now: datetime) -> CaptureProgress: ...

    async def ended(self, now: datetime, *, memories: int, fault: str | None) -> None:
        """Count what a call led to, and note its failure."""
        ...
