"""Erase the texts of deleted memories from stored receipts, once their deletion can no longer be undone."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from worker.domain.deleted import UNDO_S, Erasure
from worker.domain.errors import QueueError
from worker.ports.state import ErasableTexts, ErasureQueue

AFTER = timedelta(seconds=UNDO_S)
IN_PROGRESS = timedelta(minutes=1)
"""How long after a deletion a receipt may still be written that has the text."""

LEASE = timedelta(minutes=5)
TOGETHER = 500
"""Memories that are looked for in one pass over a tenant's receipts."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class ReceiptErasing:
    """Erases wherever receipts, also those of captures, are kept.

    Without a `queue`, as in a command, nothing is put off.
    """

    stores: Sequence[ErasableTexts]
    queue: ErasureQueue | None
    clock: Callable[[], datetime]

    async def deleted(self, tenant: str, ids: Sequence[str], *, at_once: bool = False) -> None:
        """Have the texts erased, at once if the deletion cannot be undone. A failure leaves them hidden, not shown."""
        now = self.clock()
        try:
            if self.queue is not None:
                await self.queue.put(tenant, ids, now + AFTER)
            if at_once or self.queue is None:
                await self._erase([Erasure(tenant, one, now + AFTER) for one in ids])
        except (QueueError, OSError) as error:
            log.warning("receipts_not_erased", error=type(error).__name__)

    async def restored(self, tenant: str, ids: Sequence[str]) -> None:
        """Keep the texts of memories whose deletion was undone."""
        if self.queue is not None:
            await self.queue.cancel(tenant, ids)

    async def erase_due(self) -> bool:
        """Erase what is due; return whether there was anything. Raise `QueueError` to have it tried again."""
        if self.queue is None:
            return False
        now = self.clock()
        due = await self.queue.claim(now, LEASE, most=TOGETHER)
        if due:
            try:
                await self._erase(due)
            except OSError as error:  # tried again when the lease ends
                log.warning("receipts_not_erased", error=type(error).__name__)
            else:
                await self.queue.done(due, now + LEASE)
        return bool(due)

    async def _erase(self, erasures: Iterable[Erasure]) -> None:
        gone: dict[str, dict[str, datetime]] = {}
        for one in erasures:
            gone.setdefault(one.tenant, {})[one.id] = one.due - AFTER + IN_PROGRESS
        for tenant, ids in gone.items():
            for store in self.stores:
                await store.erase(tenant, ids)
