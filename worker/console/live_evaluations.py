"""Server-sent events: how far an evaluation is, until it ends."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

from starlette.responses import Response, StreamingResponse

from worker.domain.errors import MeeseeksError
from worker.operations.client import OperationClient
from worker.operations.registry import EVALUATIONS
from worker.operations.results import EvaluationList
from worker.ports.evaluations import EvaluationState

from .live import COMMENT_S, LOOK_S, RELOAD, RETRY, event
from .security import HEADERS

MOST_STREAMS = 20

Render = Callable[[Sequence[EvaluationState]], str]


class LiveEvaluations:
    """The streams of one process; they end when `stopping` is set. `render` returns the part that changes."""

    def __init__(self, backend: OperationClient, stopping: asyncio.Event, render: Render) -> None:
        self._backend = backend
        self._stopping = stopping
        self._render = render
        self._streams = 0

    def response(self, tenant: str) -> Response:
        if self._streams >= MOST_STREAMS or self._stopping.is_set():
            return Response(status_code=503, headers={**HEADERS, "Retry-After": "5"})
        return StreamingResponse(self._events(tenant), headers=HEADERS, media_type="text/event-stream")

    async def _events(self, tenant: str) -> AsyncIterator[bytes]:
        """Tell what has changed once a second, and reload the page when nothing runs any more."""
        self._streams += 1
        told, silent = "", 0.0
        try:
            yield RETRY
            while not self._stopping.is_set():
                running = await self._running(tenant)
                if running is not None and not running:
                    yield RELOAD
                    return
                if running and (html := self._render(running)) != told:
                    told, silent = html, 0.0
                    yield event("progress", html)
                elif silent >= COMMENT_S:
                    silent = 0.0
                    yield b": still there\n\n"
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), LOOK_S)
                silent += LOOK_S
        finally:
            self._streams -= 1

    async def _running(self, tenant: str) -> list[EvaluationState] | None:
        """Return the evaluations that run, `None` if the service cannot say."""
        try:
            found = await self._backend.call(EVALUATIONS, {"tenant": tenant, "running": True})
        except MeeseeksError:
            return None
        return EvaluationList.model_validate(found).evaluations
