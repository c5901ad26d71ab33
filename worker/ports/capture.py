"""The protocol for what is kept about captures."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from worker.domain.capture import (
    CaptureProgress,
    CaptureReceipt,
    CaptureSource,
    CaptureWork,
    Proposal,
    Refusal,
    TranscriptWork,
)

WorkT = TypeVar("WorkT")
Revision = Callable[[CaptureReceipt], CaptureReceipt]


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

    async def revise(self, tenant: str, capture_id: str, revised: Revision) -> CaptureReceipt:
        """Replace a kept receipt by what is made of it, from anew if another did so meanwhile. Raise `NotFound`."""
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

    async def take(self, tenant: str, proposal_ids: Collection[str]) -> int:
        """Remove these proposals; return how many there were."""
        ...

    async def refuse(self, tenant: str, refusals: Sequence[Refusal]) -> None: ...

    async def allow(self, tenant: str, refusals: Sequence[Refusal]) -> None:
        """Forget refusals of the same texts."""
        ...

    async def refusals(self, tenant: str) -> list[Refusal]: ...

    async def salt(self) -> str:
        """Return the key of fingerprints, the same for all workers."""
        ...


class DueQueue(Protocol[WorkT]):
    """Keep work until it is due, shared by all workers. Methods raise `QueueError`."""

    async def put(self, work: WorkT, due: datetime) -> None:
        """Keep a piece of work, instead of one with its id."""
        ...

    async def note(self, work: WorkT, due: datetime) -> None:
        """Keep a piece of work until it is `due`, or until an earlier time that it has."""
        ...

    async def claim(self, now: datetime, lease: timedelta) -> WorkT | None:
        """Return work that is due, which nobody else gets until the lease ends."""
        ...

    async def done(self, work: WorkT, leased: datetime) -> None:
        """Forget work that was claimed until `leased`, unless it was put again meanwhile."""
        ...


TranscriptQueue = DueQueue[TranscriptWork]


@dataclass(frozen=True, slots=True)
class Limits:
    """What models may spend on a day; `cost` is in US dollars, `None` for any."""

    calls: int
    tokens: int
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Spent:
    """What a call took: tokens, and US dollars as far as known."""

    tokens: int
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A call that was counted `at` a time, with its estimated tokens."""

    at: datetime
    tokens: int


class CaptureQueue(DueQueue[CaptureWork], Protocol):
    """What models read later, counted by day."""

    async def take_call(self, now: datetime, tokens: int) -> bool:
        """Count a call and its estimated tokens before it is made; return `False` if a limit of the day is reached."""
        ...

    async def read(self, now: datetime) -> CaptureProgress: ...

    async def ended(self, taken: Taken, *, used: Spent | None, memories: int, fault: str | None = None) -> None:
        """Count what a call `used` instead of the estimate, and what it led to, and note its failure.

        `None` says that there was no call after all.
        """
        ...
