"""How an endpoint has an operation done: within its time, for as long as the caller waits, and committed afterwards."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import Header, Path, Query, Request
from pydantic import Field
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hooks.contract import MAX_DEADLINE_MS, Key
from worker.domain.errors import MeeseeksError
from worker.domain.operation import OperationAnswer
from worker.operations.client import ACK_S, BUDGET_S, OperationClient, QueueState
from worker.operations.metrics import Metrics

from .access import passage_of
from .json_bodies import JsonAnswer
from .problems import GONE, Problem, problem_of

DeadlineMs = Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)]
Tenant = Annotated[Key, Query(description="Whose; a token that is for one tenant goes before it.")]

QueueLook = Callable[[], Awaitable[QueueState | None]]
"""Looks at the queue; `None` while Redis does not answer."""


class ClientGone(Exception):
    """The caller has left and waits for no answer."""


@dataclass(frozen=True, slots=True)
class OperationExecutor:
    """What endpoints are made of.

    `mask` says that imports mask secrets whatever they ask for; `counts` that nobody else counts what was injected.
    """

    backend: OperationClient
    metrics: Metrics
    look: QueueLook
    mask: bool = False
    counts: bool = False

    async def ask(
        self, request: Request, operation: str, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        """Return the result while the caller waits. Raise `MeeseeksError`, and `ClientGone` once nobody waits."""
        work = self.backend.ask(operation, payload, budget=budget, ack=ack)
        return await while_awaited(request.receive, work)

    async def answer(
        self,
        request: Request,
        operation: str,
        payload: dict[str, Any],
        *,
        status: Callable[[dict[str, Any]], int] = lambda _: HTTPStatus.OK,
    ) -> Response:
        """The result as an answer, or the problem that there is instead."""
        try:
            done = await self.ask(request, operation, payload)
        except MeeseeksError as error:
            raise problem_of(error) from error
        return JsonAnswer(done.body, status(done.body))

    def delivery(self, answer: OperationAnswer, ends: float) -> "CommittedAnswer":
        """An answer that counts as delivered once it is sent, to a caller who waits until `ends` in monotonic time."""
        return CommittedAnswer(answer, ends, self.backend, self.metrics)


class CommittedAnswer(JsonAnswer):
    """An answer that is committed once it has been sent, unless that took longer than its caller waits."""

    def __init__(self, answer: OperationAnswer, ends: float, backend: OperationClient, metrics: Metrics) -> None:
        super().__init__(answer.body)
        self._commit = answer.commit
        self._ends = ends
        self._backend = backend
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._commit is not None and await has_left(receive):
            self._metrics.delivered("gone")
            return
        await super().__call__(scope, receive, send)
        if self._commit is None:
            return
        if time.monotonic() > self._ends:
            self._metrics.delivered("late")
            return
        known = await self._backend.commit(self._commit)
        self._metrics.delivered("committed" if known else "unknown")


async def while_awaited(receive: Receive, work: Awaitable[OperationAnswer]) -> OperationAnswer:
    """Return the result of `work`; raise `ClientGone` when the caller leaves. The request body must have been read."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if leaving.done():
            leaving.result()
            raise ClientGone
        return working.result()
    finally:
        leaving.cancel()
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))


async def has_left(receive: Receive) -> bool:
    """Whether the caller has left by now."""
    leaving = asyncio.ensure_future(_left(receive))
    await asyncio.sleep(0)
    left = leaving.done()
    leaving.cancel()
    return left


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def tenant_of(request: Request, wanted: str) -> str:
    """The tenant that a request is about: the one that it says, unless its token is for another one."""
    return passage_of(request.scope).caller.tenant or wanted


def only_for_all(request: Request) -> None:
    """Raise `Problem` where the token is for one tenant and what it asks for concerns all of them."""
    if passage_of(request.scope).caller.tenant is not None:
        raise Problem(HTTPStatus.FORBIDDEN, "this concerns every tenant; use a token that is not for a single one")


def left_alone(request: Request) -> Response:
    """The end of a request whose caller has gone; nobody receives it."""
    passage_of(request.scope).note = GONE
    return Response(status_code=HTTPStatus.NO_CONTENT)


def seconds_left(request: Request, deadline_ms: int) -> tuple[float, float]:
    """Seconds that are left of a deadline that began when the request arrived, and the moment at which it ends."""
    ends = passage_of(request.scope).arrived + deadline_ms / 1000
    return max(0.0, ends - time.monotonic()), ends


DEADLINE_HEADER = "X-Deadline-Ms"


Limit = Annotated[
    DeadlineMs | None, Query(description="Most milliseconds the answer may take; the shortest one that is said holds.")
]


LimitHeader = Annotated[DeadlineMs | None, Header(alias=DEADLINE_HEADER, description="As `deadline_ms`.")]


SessionId = Annotated[Key, Path(description="The conversation.")]


def shortest(*limits: int | None) -> int:
    """The shortest of the limits that were said."""
    return min(limit for limit in limits if limit is not None)
