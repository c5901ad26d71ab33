"""Runs operations for endpoints while the caller waits, and commits delivered answers."""

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

from hooks.contract import MAX_DEADLINE_MS, Key, KeyName
from worker.domain.operation import AnyOperation, OperationAnswer
from worker.domain.tasks import drop
from worker.operations.client import ACK_S, BUDGET_S, OperationClient, QueueLook
from worker.operations.metrics import Metrics

from .access import grant_of
from .json_bodies import JsonAnswer
from .problems import GONE, Problem

DeadlineMs = Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)]
Tenant = Annotated[KeyName, Query(description="Tenant; a token bound to one tenant overrides it.")]
Limit = Annotated[DeadlineMs | None, Query(description="Time limit in milliseconds; the shortest given one applies.")]
LimitHeader = Annotated[DeadlineMs | None, Header(alias="X-Deadline-Ms", description="Like `deadline_ms`.")]
SessionId = Annotated[Key, Path(description="Session id.")]


class ClientGone(Exception):
    """The caller closed the connection before the response."""


@dataclass(frozen=True, slots=True)
class OperationExecutor:
    """What endpoints share.

    `mask` masks secrets in every import. `counts` counts injection results here because no worker in this process does.
    """

    backend: OperationClient
    metrics: Metrics
    look: QueueLook
    mask: bool = False
    counts: bool = False

    async def ask(
        self,
        request: Request,
        operation: AnyOperation,
        payload: dict[str, Any],
        *,
        budget: float = BUDGET_S,
        ack: float = ACK_S,
    ) -> OperationAnswer:
        """Return the result. Raise `MeeseeksError`, or `ClientGone` if the caller leaves."""
        work = self.backend.ask(operation, payload, budget=budget, ack=ack)
        return await while_awaited(request.receive, work)

    async def answer(
        self,
        request: Request,
        operation: AnyOperation,
        payload: dict[str, Any],
        *,
        budget: float = BUDGET_S,
        status: Callable[[dict[str, Any]], int] = lambda _: HTTPStatus.OK,
    ) -> Response:
        """Return the result as a response."""
        done = await self.ask(request, operation, payload, budget=budget)
        return JsonAnswer(done.body, status(done.body))

    def delivery(self, answer: OperationAnswer, ends: float) -> "CommittedAnswer":
        """Return a response that is committed once sent, if that happens before `ends` in monotonic time."""
        return CommittedAnswer(answer, ends, self.backend, self.metrics)


class CommittedAnswer(JsonAnswer):
    """A response that is committed once it has been sent, unless that happens too late."""

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
        drop(leaving, working)
        if not working.done():
            await asyncio.wait((working,))


async def has_left(receive: Receive) -> bool:
    """Return whether the caller has closed the connection."""
    leaving = asyncio.ensure_future(_left(receive))
    await asyncio.sleep(0)
    left = leaving.done()
    leaving.cancel()
    return left


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def tenant_of(request: Request, requested: str) -> str:
    """Return the requested tenant, or the one that the token is bound to."""
    return grant_of(request.scope).caller.tenant or requested


def only_for_all(request: Request) -> None:
    """Raise `Problem` if the token is bound to one tenant; the request concerns all of them."""
    if grant_of(request.scope).caller.tenant is not None:
        raise Problem(HTTPStatus.FORBIDDEN, "this concerns all tenants; use a token that is not bound to one")


def abandoned(request: Request) -> Response:
    """Return the response to a caller who has left; it only ends the request."""
    grant_of(request.scope).note = GONE
    return Response(status_code=HTTPStatus.NO_CONTENT)


def seconds_left(request: Request, deadline_ms: int) -> tuple[float, float]:
    """Return the seconds left of a deadline counted from the arrival, and its end in monotonic time."""
    ends = grant_of(request.scope).arrived + deadline_ms / 1000
    return max(0.0, ends - time.monotonic()), ends


def shortest(*limits: int | None) -> int:
    """Return the shortest given limit."""
    return min(limit for limit in limits if limit is not None)
