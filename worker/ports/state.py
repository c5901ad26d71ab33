"""Protocols for saved state: the ledger, receipts and counts of use."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from worker.domain.ledger import LedgerEntry, LedgerKey, LedgerView
from worker.domain.receipt import Receipt, ReceiptPage, TurnOf
from worker.domain.usage import Usage


class Ledger(Protocol):
    """What each session has been shown, per agent. Every method raises `QueueError` and nothing else of its own.

    A turn key is a turn's id and, after the last colon, a digest of the request: requests of one turn share its
    number and nothing else. What is offered counts for nothing until it is committed.
    """

    async def view(self, key: LedgerKey, turn_key: str, *, depth: int) -> LedgerView:
        """What was shown in the last `depth` turns, and lasting entries; older ones are forgotten.

        A turn that is not known yet begins; a known one has its number, and its answer where it has one.
        """
        ...

    async def peek(self, key: LedgerKey) -> LedgerView:
        """Everything that counts as shown, without beginning a turn; turn 0 where nothing is known."""
        ...

    async def offer(self, key: LedgerKey, turn_key: str, answer: str, shown: dict[str, LedgerEntry]) -> None: ...

    async def commit(self, key: LedgerKey, turn_key: str) -> bool: ...

    async def agents(self, tenant: str, session_id: str) -> tuple[str, ...]:
        """The agents of a session that have a ledger."""
        ...

    async def reset(self, key: LedgerKey) -> int:
        """Forget everything, offers and answers included; the number of memories that counted as shown."""
        ...

    async def drop(self, key: LedgerKey, entries: Mapping[str, LedgerEntry]) -> int:
        """Forget these entries, as far as they are still as given; ends a pending compaction."""
        ...

    async def pend(self, key: LedgerKey) -> None:
        """A compaction of what was shown up to now has begun."""
        ...

    async def adopt(self, key: LedgerKey, turn: int, entries: Mapping[str, LedgerEntry]) -> int:
        """Count these as shown too and go on from that turn's number; entries that are there already stand."""
        ...

    async def withdraw(self, key: LedgerKey, turn_id: str) -> int:
        """What a turn has committed was not shown after all; a later commit of it counts again."""
        ...

    async def blocks(self, tenant: str, block_ids: Sequence[str]) -> dict[str, LedgerEntry]:
        """The memories of blocks that were offered to any session of the tenant."""
        ...


class ReceiptStore(Protocol):
    """Keeps receipts for a while."""

    async def write(self, receipt: Receipt) -> None: ...

    async def read(self, tenant: str, receipt_id: str) -> Receipt: ...

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        """The newest first, at most `limit`, after the `offset` newest ones."""
        ...

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        """The receipts of one turn, of which there are several where its id was used for several messages."""
        ...


class UsageStore(Protocol):
    """How often memories were injected and used, per tenant. Every method raises `QueueError` and nothing else."""

    async def count(self, tenant: str, receipt_id: str, used: Mapping[str, bool], at: datetime) -> bool:
        """Count an answer, by id whether it used each memory of its block; `False` where it had been counted."""
        ...

    async def read(self, tenant: str, ids: Sequence[str]) -> dict[str, Usage]:
        """The counts of these memories, as far as there are any."""
        ...

    async def everything(self, tenant: str) -> dict[str, Usage]:
        """The counts of every memory of the tenant."""
        ...

    async def forget(self, tenant: str, ids: Sequence[str]) -> None: ...
