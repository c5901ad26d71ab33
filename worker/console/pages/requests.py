"""The list of requests and what its filters show."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Engine, Outcome
from worker.console.app import Console, Handler
from worker.console.rendering import Shown, query_with
from worker.console.request_words import DECIDERS, RequestRow, row_of
from worker.console.visits import Visit
from worker.operations.registry import RECEIPT_PAGE
from worker.receipts.search import ReceiptFilter

PAGE = 50


class RequestsQuery(ReceiptFilter):
    """The filters of the list, where it goes on, and the newest request that a page has already."""

    cursor: str | None = None
    after: str | None = None
    degraded: Annotated[bool | None, BeforeValidator(lambda value: {"yes": True, "no": False}.get(value, value))] = None

    @property
    def where(self) -> dict[str, Any]:
        return self.model_dump(mode="json", exclude={"cursor", "after"}, exclude_none=True)


class Choice(BaseModel):
    """A value that a filter may have, and its name."""

    value: str
    name: str


class RequestsPage(BaseModel):
    """A page of the list. `searched_back_to` is set if it has what fits of a stretch, and there are older ones."""

    rows: list[RequestRow]
    cursor: str | None
    searched_back_to: datetime | None
    filters: dict[str, str]
    outcomes: list[Choice]
    engines: list[Choice]
    stream: str | None


OUTCOMES = [
    Choice(value=Outcome.INJECTED, name="memories given"),
    Choice(value=Outcome.NONE_RELEVANT, name="nothing fit"),
    Choice(value=Outcome.ALL_DUPLICATE, name="already in the conversation"),
    Choice(value=Outcome.SKIPPED, name="not searched"),
    Choice(value=Outcome.TIMEOUT, name="too late"),
    Choice(value=Outcome.ERROR, name="failed"),
]
ENGINES = [Choice(value=engine, name=name) for engine, name in DECIDERS.items() if engine is not Engine.NONE]


def routes(console: Console) -> list[Route]:
    return [
        *console.page("/requests", show),
        Route("/requests/live", console.serving(_streaming(console)), methods=["GET"]),
    ]


async def show(visit: Visit) -> Shown:
    query = visit.query(RequestsQuery)
    found = await visit.ask(RECEIPT_PAGE, {"where": query.where, "limit": PAGE, "cursor": query.cursor})
    rows = [row_of(summary) for summary in found.summaries]
    stretch = query.where and found.cursor is not None and len(rows) < PAGE
    page = RequestsPage(
        rows=rows,
        cursor=found.cursor,
        searched_back_to=found.back_to if stretch else None,
        filters={name: str(value) for name, value in query.where.items()},
        outcomes=OUTCOMES,
        engines=ENGINES,
        stream=None if query.cursor else _stream_of(visit, found.summaries[0].id if found.summaries else ""),
    )
    return Shown("requests.html", "Requests", page)


def _stream_of(visit: Visit, newest: str) -> str:
    """Return the address of the events that follow what the page shows."""
    return "/requests/live" + query_with(visit.request.query_params, after=newest, tenant=visit.tenant)


def _streaming(console: Console) -> Handler:
    async def stream(visit: Visit) -> Response:
        query = visit.query(RequestsQuery)
        return console.live.response(visit.tenant, query.where, query.after)

    return stream
