"""A receipt is found by the beginning of its id, if only one begins like that; a list says how far it has looked."""

from datetime import UTC, datetime, timedelta

import pytest

from hooks.contract import InjectionRequest, Outcome
from worker.domain.errors import NotFound, OperationError
from worker.domain.receipt import Receipt, ReceiptPage
from worker.domain.receipt_summary import ReceiptSummary, SummaryPage, summary_of
from worker.receipts import search
from worker.receipts.search import ReceiptFilter, find_summaries, read_receipt

AT = datetime(2026, 3, 20, tzinfo=UTC)


def receipt(receipt_id: str) -> Receipt:
    request = InjectionRequest(session_id="s", message="m")
    return Receipt.model_construct(id=receipt_id, at=AT, request=request, outcome=Outcome.INJECTED)


class Kept:
    """Receipts of one tenant, newest first."""

    def __init__(self, *ids: str) -> None:
        self.kept = [receipt(name) for name in ids]

    async def read(self, tenant: str, receipt_id: str) -> Receipt:
        found = [one for one in self.kept if one.id == receipt_id and tenant == "t1"]
        if not found:
            raise NotFound(f"there is no receipt {receipt_id}")
        return found[0]

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        raise AssertionError("nothing is listed")

    async def several(self, tenant: str, ids: object) -> list[Receipt]:
        raise AssertionError("none is read")

    async def summaries(self, tenant: str, limit: int, *, after: str | None = None) -> SummaryPage:
        raise AssertionError("nothing is listed")

    async def beginning(self, tenant: str, prefix: str) -> list[str]:
        return [one.id for one in self.kept if one.id.startswith(prefix) and tenant == "t1"]

    async def write(self, receipt: Receipt) -> None:
        raise AssertionError("nothing is written")

    async def of_turn(self, turn: object) -> list[Receipt]:
        raise AssertionError("no turn is looked for")


KEPT = Kept(*(f"{number:04x}ffff" for number in range(200)), "abcd1111", "abcd2222")


@pytest.mark.parametrize("name", ["abcd1", "abcd1111", "00c7"])
async def test_the_beginning_of_an_id_is_enough(name: str) -> None:
    assert (await read_receipt(KEPT, "t1", name)).id.startswith(name)


async def test_what_is_unclear_unknown_too_short_or_of_another_tenant_is_an_error() -> None:
    with pytest.raises(OperationError, match="several receipts begin with abcd: abcd1111, abcd2222"):
        await read_receipt(KEPT, "t1", "abcd")
    for tenant, name in (("t1", "zzzz"), ("t1", "abc"), ("t2", "abcd1")):
        with pytest.raises(NotFound, match=f"there is no receipt {name}"):
            await read_receipt(KEPT, tenant, name)


class Listed(Kept):
    """Requests of which only the last one fits, newest first, and how many lines were read."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.lines = [line(number, "booth" if number == count - 1 else "other") for number in range(count)]

    async def summaries(self, tenant: str, limit: int, *, after: str | None = None) -> SummaryPage:
        begin = int(after or 0)
        end = begin + limit
        return SummaryPage(summaries=tuple(self.lines[begin:end]), cursor=str(end) if end < len(self.lines) else None)


def line(number: int, message: str) -> ReceiptSummary:
    at = AT - timedelta(minutes=number)
    return ReceiptSummary(
        id=str(number), at=at, message=message, session_id="s", agent_id="main", turn_id="t", outcome=Outcome.INJECTED
    )


@pytest.mark.parametrize(("memory", "found"), [("m1", True), ("m2", False), (None, True)])
def test_requests_are_found_by_what_they_were_given(memory: str | None, found: bool) -> None:
    given = receipt("abcd").model_copy(update={"chosen": ("m1",)})
    assert ReceiptFilter(memory=memory).matches(summary_of(given)) is found


async def test_a_page_says_how_far_it_has_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "SCANNED", 2 * search.STEP)
    receipts, wanted = Listed(3 * search.STEP), ReceiptFilter(words="booth")
    first = await find_summaries(receipts, "t1", wanted, 50, None)
    assert (first.summaries, first.back_to) == ((), receipts.lines[2 * search.STEP - 1].at)
    rest = await find_summaries(receipts, "t1", wanted, 50, first.cursor)
    assert [one.message for one in rest.summaries] == ["booth"]
    assert (rest.cursor, rest.back_to) == (None, receipts.lines[-1].at)
