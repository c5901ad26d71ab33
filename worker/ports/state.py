"""Protocols for saved state: ledger, receipts, usage counts, and deleted memories."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from worker.domain.cue_progress import CueProgress
from worker.domain.deleted import DeletedMemory, Erasure
from worker.domain.ledger import LedgerEntry, LedgerKey, LedgerView
from worker.domain.receipt import Receipt, ReceiptPage, TurnOf
from worker.domain.receipt_summary import SummaryPage
from worker.domain.usage import Usage


class Ledger(Protocol):
    """Record what each session and agent has been shown. Methods raise `QueueError`.

    A turn key is a turn's id and, after the last colon, a digest of the request: requests of one turn share only its
    number. An offer takes effect when it is committed.
    """

    async def view(self, key: LedgerKey, turn_key: str, *, depth: int) -> LedgerView:
        """Return what was shown in the last `depth` turns, and lasting entries; forget the rest.

        Begin the turn if it is new, else return its number and answer.
        """
        ...

    async def peek(self, key: LedgerKey) -> LedgerView:
        """Return everything shown without beginning a turn; turn 0 for an unknown ledger."""
        ...

    async def offer(
        self, key: LedgerKey, turn_key: str, answer: str, shown: dict[str, LedgerEntry], *, seen: int | None = None
    ) -> frozenset[str]:
        """Keep a turn's answer and the entries it will show once committed; only the first offer of a turn counts.

        `seen` is `LedgerView.offers` of this turn. If a parallel turn has offered some of the memories since, keep
        nothing and return their ids: an offer reserves its memories. `UNSEEN` also returns those that were shown.
        """
        ...

    async def commit(self, key: LedgerKey, turn_key: str) -> bool:
        """Count a turn's offer as shown; return `False` if there is none."""
        ...

    async def agents(self, tenant: str, session_id: str) -> tuple[str, ...]:
        """Return the agents of a session that have a ledger."""
        ...

    async def reset(self, key: LedgerKey) -> int:
        """Forget everything, including offers and answers; return the number of memories shown."""
        ...

    async def drop(self, key: LedgerKey, entries: Mapping[str, LedgerEntry]) -> int:
        """Forget those of these entries that are unchanged, end a pending compaction, and return their number."""
        ...

    async def begin_compaction(self, key: LedgerKey) -> None:
        """Note that a compaction of everything shown so far has begun."""
        ...

    async def adopt(self, key: LedgerKey, turn: int, entries: Mapping[str, LedgerEntry]) -> int:
        """Add these entries unless their memory has one, continue from turn `turn`, and return the number added."""
        ...

    async def withdraw(self, key: LedgerKey, turn_id: str) -> int:
        """Undo a turn's commits and return the number of memories withdrawn; a later commit counts again."""
        ...

    async def blocks(self, tenant: str, block_ids: Sequence[str]) -> dict[str, LedgerEntry]:
        """Return the memories of blocks offered to any session of the tenant."""
        ...


class ErasableTexts(Protocol):
    """Keeps texts of memories."""

    async def erase(self, tenant: str, gone: Mapping[str, datetime]) -> int:
        """Remove the texts of deleted memories from what was written until these times; return how much changed."""
        ...


class ReceiptStore(ErasableTexts, Protocol):
    """Keep receipts for a limited time."""

    async def write(self, receipt: Receipt) -> None: ...

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        """Raise `NotFound` for an unknown receipt, and for one that another version wrote in another format."""
        ...

    async def several(self, tenant: str, ids: Sequence[str]) -> list[Receipt]:
        """Return those of these receipts that there are, in this order."""
        ...

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage: ...

    async def summaries(self, tenant: str, limit: int, *, after: str | None = None) -> SummaryPage:
        """Return the next lines of the list, newest first, after the cursor of a page. Raise `BadCursor`."""
        ...

    async def beginning(self, tenant: str, prefix: str) -> list[str]:
        """Return ids of receipts that begin like this, only some if there are many."""
        ...

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        """Return the receipts of a turn; several if its id was used for several messages."""
        ...


class ErasureQueue(Protocol):
    """Keep which deleted memories' texts are to be erased, shared by all workers. Methods raise `QueueError`."""

    async def put(self, tenant: str, ids: Sequence[str], due: datetime) -> None: ...

    async def cancel(self, tenant: str, ids: Sequence[str]) -> None: ...

    async def claim(self, now: datetime, lease: timedelta, *, most: int) -> list[Erasure]:
        """Return some that are due, which nobody else gets until the lease ends."""
        ...

    async def done(self, erasures: Sequence[Erasure], leased: datetime) -> None:
        """Forget what was claimed until `leased`, unless it was put again meanwhile."""
        ...


class UsageStore(Protocol):
    """Count how often memories were injected and used, per tenant. Methods raise `QueueError`."""

    async def count(self, tenant: str, receipt_id: str, used: Mapping[str, bool], at: datetime) -> bool:
        """Count an answer, given whether it used each memory of its block; return `False` if already counted."""
        ...

    async def read(self, tenant: str, ids: Sequence[str]) -> dict[str, Usage]:
        """Return the counts of those of these memories that have any."""
        ...

    async def read_all(self, tenant: str) -> dict[str, Usage]: ...

    async def forget(self, tenant: str, ids: Sequence[str]) -> None: ...


class DeletedMemories(Protocol):
    """Keep deleted memories for `UNDO_S` seconds, after which nothing of them is left. Methods raise `QueueError`."""

    async def keep(self, tenant: str, deleted: Sequence[DeletedMemory]) -> None: ...

    async def take(self, tenant: str, ids: Sequence[str]) -> list[DeletedMemory]:
        """Return and remove those of these memories that are kept, without ids those of the latest deletion."""
        ...

    async def drop(self, tenant: str, ids: Sequence[str]) -> frozenset[str]:
        """Keep these no longer, and return the ids of those that were kept."""
        ...


class CueLog(Protocol):
    """Count what the workers spend on cues, by day. Methods raise `QueueError`."""

    async def lead(self, worker: str, lease: timedelta) -> bool:
        """Return whether this worker may write cues until the lease ends; one at a time may."""
        ...

    async def take_call(self, now: datetime) -> bool:
        """Count a call before it is made; return `False` if the budget of the day is spent."""
        ...

    async def wrote(self, now: datetime, *, memories: int, tokens: int) -> None:
        """Count the memories that got cues, and the tokens of their call."""
        ...

    async def ended(self, now: datetime, *, without_cues: int | None, fault: str | None) -> int:
        """Note the end of a run; return how many runs in a row have failed."""
        ...

    async def read(self, now: datetime) -> CueProgress: ...
