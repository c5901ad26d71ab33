"""Find receipts by request and result."""

from pydantic import Field

from hooks.contract import Engine, Key, Outcome, Reason, Text, UtcTime
from hooks.contract.dates import LastMoment
from worker.domain.errors import NotFound, OperationError
from worker.domain.memory import DomainModel
from worker.domain.receipt import Receipt
from worker.domain.receipt_summary import MESSAGE_CHARS, ReceiptSummary, SummaryPage
from worker.ports.state import ReceiptStore
from worker.text.lexicon import fold

PAGE = 1_000
"""Lines of the list to read at a time."""

SCANNED = 5_000
"""Lines to look through for one page of a filtered list."""

STEP = 100
"""Lines to read at a time for a filtered page, which may thus be longer than asked for, by less than this."""

WHOLE = 100
"""Whole receipts to read at a time."""

LEAST_PREFIX = 4
"""Least characters by which a receipt can be named."""


class ReceiptFilter(DomainModel):
    """Filters for receipts; `None` matches all. `since` and `until` are times of the request.

    `words` must all be in the beginning of the message; `memory` is one that was given.
    """

    session_id: Key | None = None
    agent_id: Key | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    engine: Engine | None = None
    degraded: bool | None = None
    since: UtcTime | None = None
    until: LastMoment | None = None
    words: Text | None = Field(default=None, max_length=MESSAGE_CHARS)
    memory: Key | None = None

    def matches(self, receipt: ReceiptSummary) -> bool:
        pairs = (
            (self.session_id, receipt.session_id),
            (self.agent_id, receipt.agent_id),
            (self.outcome, receipt.outcome),
            (self.reason, receipt.reason),
            (self.engine, receipt.engine),
            (self.degraded, receipt.degraded),
        )
        if self.since is not None and receipt.at < self.since:
            return False
        if self.until is not None and receipt.at > self.until:
            return False
        if self.memory is not None and self.memory not in receipt.given:
            return False
        if self.words is not None and not all(word in fold(receipt.message) for word in fold(self.words).split()):
            return False
        return all(wanted is None or wanted == there for wanted, there in pairs)


async def read_receipt(receipts: ReceiptStore, tenant: str, receipt_id: str) -> Receipt:
    """Return the receipt with this id, or the only one whose id begins with it.

    Raise `NotFound`, or `OperationError` if several begin with it.
    """
    try:
        return await receipts.read(tenant, receipt_id)
    except NotFound:
        if len(receipt_id) < LEAST_PREFIX:
            raise
        found = await receipts.beginning(tenant, receipt_id)
        if not found:
            raise
    if len(found) > 1:
        some = ", ".join(found[:3])
        raise OperationError(Reason.BAD_REQUEST, f"several receipts begin with {receipt_id}: {some}; give more of it")
    return await receipts.read(tenant, found[0])


async def find_receipts(receipts: ReceiptStore, tenant: str, wanted: ReceiptFilter, limit: int) -> list[Receipt]:
    """Return the newest matching receipts, at most `limit`."""
    found: list[str] = []
    cursor: str | None = None
    while len(found) < limit:
        page = await receipts.summaries(tenant, PAGE, after=cursor)
        found += [one.id for one in page.summaries if wanted.matches(one)]
        cursor = page.cursor
        if cursor is None:
            break
    ids, whole = found[:limit], list[Receipt]()
    for start in range(0, len(ids), WHOLE):
        whole += await receipts.several(tenant, ids[start : start + WHOLE])
    return whole


async def find_summaries(
    receipts: ReceiptStore, tenant: str, wanted: ReceiptFilter, limit: int, after: str | None
) -> SummaryPage:
    """Return the next matching lines. The page may have fewer than `limit`, and still a cursor: go on from there."""
    found: list[ReceiptSummary] = []
    scanned, cursor, back_to = 0, after, None
    while len(found) < limit and scanned < SCANNED:
        size = limit - len(found) if wanted == ReceiptFilter() else STEP
        page = await receipts.summaries(tenant, size, after=cursor)
        found += [one for one in page.summaries if wanted.matches(one)]
        scanned, cursor = scanned + size, page.cursor
        back_to = page.summaries[-1].at if page.summaries else back_to
        if cursor is None:
            break
    return SummaryPage(summaries=tuple(found), cursor=cursor, back_to=back_to)


def brief(receipt: Receipt) -> dict[str, object]:
    """Return a receipt as JSON values without texts, settings and considered memories."""
    left_out = {"request", "config", "considered", "query", "recalls", "block", "exchanges"}
    request = receipt.request
    return {
        **receipt.model_dump(mode="json", exclude=left_out),
        "session_id": request.session_id,
        "agent_id": request.agent_id,
        "turn_id": request.turn_id,
        "considered": len(receipt.considered),
    }
