"""Endpoints that serve a run: memory for it, native hooks of hosts, events of its session, and search by hand."""

from typing import Annotated, Any

from fastapi import FastAPI, Header, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from hooks.contract import (
    DEFAULT_DEADLINE_MS,
    InjectionRequest,
    InjectionResult,
    Key,
    Outcome,
    Reason,
    SessionEvent,
    SessionEventResult,
)
from hooks.wire import ACK_TIMEOUT, HOST_HOOK, INJECT, SESSION_EVENT

from ..errors import MeeseeksError
from ..jobs import reason_of
from ..operations import RECALL, SESSION_SHOW, RecallPayload
from .bodies import JsonAnswer, is_json, read_json, unsupported
from .door import DeadlineMs, Door, Tenant, seconds_left, tenant_of
from .problems import invalid, problem_of
from .shapes import RecallView, SessionEventBody, SessionView

DEADLINE_HEADER = "X-Deadline-Ms"
LATE = frozenset({Reason.NO_WORKER, Reason.NO_ACK, Reason.BUSY, Reason.DEADLINE})
RECALL_DEADLINE_MS = 10_000

Limit = Annotated[
    DeadlineMs | None, Query(description="Most milliseconds the answer may take; the shortest one that is said holds.")
]
LimitHeader = Annotated[DeadlineMs | None, Header(alias=DEADLINE_HEADER, description="As `deadline_ms`.")]
SessionId = Annotated[Key, Path(description="The conversation.")]

NATIVE = {
    "requestBody": {
        "required": True,
        "description": "The event as the host sends it.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}
NATIVE_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "What the host reads; `{}` is nothing. After trouble the header `Meeseeks-Reason` names it.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


def add_injecting(app: FastAPI, door: Door) -> None:
    _add_inject(app, door)
    _add_hooks(app, door)
    _add_sessions(app, door)
    _add_recall(app, door)


def _add_inject(app: FastAPI, door: Door) -> None:
    @app.post("/v1/inject", tags=["run"], operation_id="inject", response_model=InjectionResult)
    async def inject(
        request: Request, body: InjectionRequest, deadline_ms: Limit = None, x_deadline_ms: LimitHeader = None
    ) -> Response:
        """The memory block for a run, or nothing and the reason.

        Trouble of the service is an answer without a block, as the hook gives it, never an error: only what the caller
        has to change is one. What the block shows counts as shown once the answer has been sent to a caller who waits.
        """
        limit = shortest(body.deadline_ms, deadline_ms, x_deadline_ms)
        left, ends = seconds_left(request, limit)
        payload = body.model_dump(mode="json", exclude_none=True) | {"deadline_ms": limit}
        payload["scope"]["tenant"] = tenant_of(request, body.scope.tenant)
        try:
            answer = await door.ask(request, INJECT, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            result = _without_block(error, body)
            door.metrics.injected(result)
            return JsonAnswer(result.model_dump(mode="json"))
        if door.counts:
            door.metrics.injected(InjectionResult.model_validate(answer.body))
        return door.delivery(answer, ends)


def shortest(*limits: int | None) -> int:
    """The shortest of the limits that were said."""
    return min(limit for limit in limits if limit is not None)


def _without_block(error: MeeseeksError, body: InjectionRequest) -> InjectionResult:
    """The result of a request that trouble kept from being served. Raises `Problem` where the caller is at fault."""
    reason = reason_of(error)
    if reason is Reason.BAD_REQUEST:
        raise problem_of(error) from error
    outcome = Outcome.TIMEOUT if reason in LATE else Outcome.ERROR
    return InjectionResult.nothing(outcome, reason, turn_id=body.turn_id)


def _add_hooks(app: FastAPI, door: Door) -> None:
    @app.post(
        "/v1/hooks/{host}",
        tags=["run"],
        operation_id="host_hook",
        openapi_extra=NATIVE,
        responses=NATIVE_ANSWER,
        response_class=JsonAnswer,
    )
    async def hook(
        request: Request,
        host: Annotated[Key, Path(description="The host, such as claude-code or codex.")],
        tenant: Annotated[Key | None, Query(description="Whose memories.")] = None,
        user: Annotated[Key | None, Query(description="The user whose own memories are seen as well.")] = None,
        project: Annotated[Key | None, Query(description="The project; the event's folder names one, too.")] = None,
        channel: Annotated[Key | None, Query(description="The channel of the conversation.")] = None,
        deadline_ms: Limit = None,
        x_deadline_ms: LimitHeader = None,
    ) -> Response:
        """A hook of a host: its native event in, its native output out.

        A host shows errors to its user, who can do nothing about them. So trouble is `{}`, which is nothing for every
        host; an unknown host and a wrong token are errors, since only a change of the configuration mends those.
        """
        limit = shortest(DEFAULT_DEADLINE_MS, deadline_ms, x_deadline_ms)
        scope = {"tenant": tenant, "user": user, "project": project, "channel": channel}
        said = {name: value for name, value in scope.items() if value is not None}
        if tenant_of(request, "") or tenant is not None:
            said["tenant"] = tenant_of(request, tenant or "")
        payload = {"host": host, "event": await _event(request), "deadline_ms": limit, "scope": said}
        left, ends = seconds_left(request, limit)
        try:
            answer = await door.ask(request, HOST_HOOK, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            raise problem_of(error) from error
        return door.delivery(answer, ends)


async def _event(request: Request) -> Any:
    if not is_json(request.headers.get("content-type")):
        raise unsupported("application/json")
    return read_json(await request.body())


def _add_sessions(app: FastAPI, door: Door) -> None:
    @app.post(
        "/v1/sessions/{session_id:segment}/events",
        tags=["run"],
        operation_id="session_event",
        response_model=SessionEventResult,
    )
    async def event(
        request: Request,
        session_id: SessionId,
        body: SessionEventBody,
        deadline_ms: Limit = None,
        x_deadline_ms: LimitHeader = None,
    ) -> Response:
        """Tell what happened to a session, so that what it has been shown stays known. Trouble is `done: false`."""
        limit = shortest(body.deadline_ms, deadline_ms, x_deadline_ms)
        told = body.model_dump(mode="json", exclude_none=True) | {"session_id": session_id, "deadline_ms": limit}
        told["tenant"] = tenant_of(request, body.tenant)
        try:
            payload = SessionEvent.model_validate(told).model_dump(mode="json", exclude_none=True)
        except ValidationError as error:
            raise invalid(error, "body") from error
        left, _ = seconds_left(request, limit)
        try:
            answer = await door.ask(request, SESSION_EVENT, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            if reason_of(error) is Reason.BAD_REQUEST:
                raise problem_of(error) from error
            return JsonAnswer(SessionEventResult(done=False, reason=reason_of(error)).model_dump(mode="json"))
        return JsonAnswer(answer.body)

    @app.get("/v1/sessions/{session_id:segment}", tags=["run"], operation_id="show_session", response_model=SessionView)
    async def show(request: Request, session_id: SessionId, tenant: Tenant = "default") -> Response:
        """The memories that the agents of a session have in their context, as far as the service knows."""
        payload = {"tenant": tenant_of(request, tenant), "session_id": session_id}
        return await door.answer(request, SESSION_SHOW, payload)


def _add_recall(app: FastAPI, door: Door) -> None:
    @app.post("/v1/recall", tags=["memories"], operation_id="recall", response_model=RecallView)
    async def recall(
        request: Request, body: RecallPayload, deadline_ms: Limit = None, x_deadline_ms: LimitHeader = None
    ) -> Response:
        """Search memories by hand, best first. `ungated` also brings what no floor lets pass."""
        left, _ = seconds_left(request, shortest(RECALL_DEADLINE_MS, deadline_ms, x_deadline_ms))
        payload = body.model_dump(mode="json", exclude_none=True)
        payload["scope"]["tenant"] = tenant_of(request, body.scope.tenant)
        try:
            answer = await door.ask(request, RECALL, payload, budget=left)
        except MeeseeksError as error:
            raise problem_of(error) from error
        return JsonAnswer(answer.body)
