"""Find receipts by request and result."""

from hooks.contract import Engine, Key, Outcome, Reason, UtcTime
from hooks.contract.dates import LastMoment
from worker.domain.errors import NotFound, OperationError
from worker.domain.memory import DomainModel
from worker.domain.receipt import Receipt
from worker.ports.state import ReceiptStore

PAGE = 100
"""Receipts to read at a time."""

LEAST_PREFIX = 4
"""Least characters by which a receipt can be named."""


class ReceiptFilter(DomainModel):
    """Filters for receipts; `None` matches all. `since` and `until` are times of the request."""

    session_id: Key | None = None
    agent_id: Key | None = None
    outcome: Outcome | None = None
    reason: Reason | None = None
    engine: Engine | None = None
    degraded: bool | None = None
    since: UtcTime | None = None
    until: LastMoment | None = None

    def matches(self, receipt: Receipt) -> bool:
        pairs = (
            (self.session_id, receipt.request.session_id),
            (self.agent_id, receipt.request.agent_id),
            (self.outcome, receipt.outcome),
            (self.reason, receipt.reason),
            (self.engine, receipt.engine),
            (self.degraded, receipt.degraded),
        )
        if self.since is not None and receipt.at < self.since:
            return False
        if self.until is not None and receipt.at > self.until:
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
        found = await _beginning_with(receipts, tenant, receipt_id)
        if not found:
            raise
    if len(found) > 1:
        some = ", ".join(one.id for one in found[:3])
        raise OperationError(Reason.BAD_REQUEST, f"several receipts begin with {receipt_id}: {some}; give more of it")
    return found[0]


async def _beginning_with(receipts: ReceiptStore, tenant: str, prefix: str) -> list[Receipt]:
    found, offset, end = list[Receipt](), 0, False
    while not end:
        page = await receipts.recent(tenant, PAGE, offset=offset)
        found += [receipt for receipt in page.receipts if receipt.id.startswith(prefix)]
        offset, end = offset + PAGE, page.end
    return found


async def find_receipts(receipts: ReceiptStore, tenant: str, wanted: ReceiptFilter, limit: int) -> list[Receipt]:
    """Return the newest matching receipts, at most `limit`."""
    found: list[Receipt] = []
    offset = 0
    while len(found) < limit:
        page = await receipts.recent(tenant, PAGE, offset=offset)
        found += [receipt for receipt in page.receipts if wanted.matches(receipt)]
        if page.end:
            break
        offset += PAGE
    return found[:limit]


def brief(receipt: Receipt) -> dict[str, object]:
    """Return a receipt as JSON values without texts, settings and considered memories."""
    left_out = {"request", "config", "considered", "query", "recalls"}
    request = receipt.request
    return {
        **receipt.model_dump(mode="json", exclude=left_out),
        "session_id": request.session_id,
        "agent_id": request.agent_id,
        "turn_id": request.turn_id,
        "considered": len(receipt.considered),
    }
