"""Server-sent events: the newest requests, looked for and rendered once for all who watch the same list."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Any

from starlette.responses import Response, StreamingResponse

from worker.domain.errors import MeeseeksError
from worker.domain.receipt_summary import ReceiptSummary, SummaryPage
from worker.operations.client import OperationClient
from worker.operations.registry import RECEIPT_PAGE
from worker.receipts.search import ReceiptFilter

from .security import HEADERS

LOOK_S = 1.0
"""Seconds between two looks at a list."""

COMMENT_S = 15.0
"""Seconds after which a silent stream says something, so that what lies between does not end it."""

MOST_STREAMS = 100
MOST_WAITING = 100
"""Events that may wait for a slow reader, who has to reload after that."""

LOOKED_AT = 50

MOST_KNOWN = 5_000
"""Ids to remember, as requests that took longer may come in between."""

RETRY = b"retry: 3000\n\n"
RELOAD = b"event: reload\ndata: \n\n"

Render = Callable[[Sequence[ReceiptSummary]], str]


class LiveRequests:
    """The streams of one process. `render` returns the rows of requests."""

    def __init__(self, backend: OperationClient, render: Render) -> None:
        self._backend = backend
        self._render = render
        self._lists: dict[str, _List] = {}
        self.stopping = asyncio.Event()

    @property
    def streams(self) -> int:
        return sum(len(one.readers) for one in self._lists.values())

    def stop(self) -> None:
        """End every stream, so that the service can stop."""
        self.stopping.set()

    def response(self, tenant: str, where: Mapping[str, Any], after: str | None = None) -> Response:
        """Return a stream of the list of a tenant; the caller polls if there are too many.

        It begins with what is newer than the request `after`, or with everything if the caller has none yet.
        """
        if self.streams >= MOST_STREAMS or self.stopping.is_set():
            return Response(status_code=503, headers={**HEADERS, "Retry-After": "5"})
        return StreamingResponse(self._events(tenant, where, after), headers=HEADERS, media_type="text/event-stream")

    async def _events(self, tenant: str, where: Mapping[str, Any], after: str | None) -> AsyncIterator[bytes]:
        key = json.dumps([tenant, where], sort_keys=True)
        watched = self._lists.setdefault(key, _List(tenant, ReceiptFilter.model_validate(where)))
        queue: asyncio.Queue[bytes] = asyncio.Queue(MOST_WAITING + 1)
        watched.readers.add(queue)
        try:
            yield RETRY
            if missed := await self._missed(watched, after):
                yield missed
                if missed is RELOAD:
                    return
            if watched.looking is None:
                watched.looking = asyncio.create_task(self._look(watched), name="live-requests")
            while (told := await self._next(queue)) is not None:
                yield told
                if told is RELOAD:
                    return
        finally:
            watched.readers.discard(queue)
            if not watched.readers:
                self._lists.pop(key, None)
                if watched.looking is not None:
                    watched.looking.cancel()

    async def _missed(self, watched: "_List", after: str | None) -> bytes | None:
        """Return what came between the page and its stream; the page drops what it has already.

        It has to reload if that is more than one look shows.
        """
        try:
            if watched.known is None:
                watched.known = {one.id for one in await self._newest(watched.tenant)}
            fitting = await self._newest(watched.tenant, watched.where)
        except MeeseeksError:
            return None
        newer = list(takewhile(lambda one: one.id != after, fitting))
        if len(newer) >= LOOKED_AT:
            return RELOAD
        return event("rows", self._render(newer)) if newer else None

    async def _next(self, queue: "asyncio.Queue[bytes]") -> bytes | None:
        """Return the next event, or `None` when the service stops."""
        getting, stopping = asyncio.ensure_future(queue.get()), asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((getting, stopping), timeout=COMMENT_S, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                return None
            return getting.result() if getting.done() else b": still there\n\n"
        finally:
            getting.cancel()
            stopping.cancel()

    async def _look(self, watched: "_List") -> None:
        """Tell all readers of a list what is new in it, at most once in `LOOK_S`."""
        while True:
            with suppress(MeeseeksError):
                newest = await self._newest(watched.tenant)
                known = watched.known
                fresh = [one for one in newest if known is not None and one.id not in known]
                if new := [one for one in fresh if watched.where.matches(one)]:
                    watched.tell(event("rows", self._render(new)))
                kept = known if known is not None and len(known) < MOST_KNOWN else set()
                watched.known = kept | {one.id for one in newest}
            await asyncio.sleep(LOOK_S)

    async def _newest(self, tenant: str, where: ReceiptFilter | None = None) -> tuple[ReceiptSummary, ...]:
        """Return the newest requests, without `where` whatever a list shows of them: it filters each look itself."""
        fitting = where.model_dump(mode="json", exclude_none=True) if where else {}
        page = await self._backend.call(RECEIPT_PAGE, {"tenant": tenant, "limit": LOOKED_AT, "where": fitting})
        return SummaryPage.model_validate(page).summaries


class _List:
    """A list that is watched, the queues of its readers, and the ids that they have been told of."""

    def __init__(self, tenant: str, where: ReceiptFilter) -> None:
        self.tenant = tenant
        self.where = where
        self.readers: set[asyncio.Queue[bytes]] = set()
        self.looking: asyncio.Task[None] | None = None
        self.known: set[str] | None = None

    def tell(self, told: bytes) -> None:
        for queue in self.readers:
            if queue.qsize() < MOST_WAITING:
                queue.put_nowait(told)
            elif not queue.full():
                queue.put_nowait(RELOAD)


def event(name: str, text: str) -> bytes:
    """Return an event with this text."""
    lines = "".join(f"data: {line}\n" for line in text.splitlines() if line.strip())
    return f"event: {name}\n{lines}\n".encode()
