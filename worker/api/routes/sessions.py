"""Endpoints for sessions and native events of hosts."""

from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from hooks.contract import DEFAULT_DEADLINE_MS, Key, Reason, SessionEvent, SessionEventResult
from hooks.wire import ACK_TIMEOUT, HOST_HOOK, SESSION_EVENT
from worker.api.execution import (
    Limit,
    LimitHeader,
    OperationExecutor,
    SessionId,
    Tenant,
    seconds_left,
    shortest,
    tenant_of,
)
from worker.api.json_bodies import JsonAnswer, is_json, read_json, unsupported
from worker.api.problems import invalid, problem_of
from worker.api.schemas import SessionEventBody, SessionView
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of
from worker.operations.sessions import SESSION_SHOW

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


def _add_hooks(app: FastAPI, executor: OperationExecutor) -> None:
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
            answer = await executor.ask(request, HOST_HOOK, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            raise problem_of(error) from error
        return executor.delivery(answer, ends)


async def _event(request: Request) -> Any:
    if not is_json(request.headers.get("content-type")):
        raise unsupported("application/json")
    return read_json(await request.body())


def _add_sessions(app: FastAPI, executor: OperationExecutor) -> None:
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
            answer = await executor.ask(request, SESSION_EVENT, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            if reason_of(error) is Reason.BAD_REQUEST:
                raise problem_of(error) from error
            return JsonAnswer(SessionEventResult(done=False, reason=reason_of(error)).model_dump(mode="json"))
        return JsonAnswer(answer.body)

    @app.get("/v1/sessions/{session_id:segment}", tags=["run"], operation_id="show_session", response_model=SessionView)
    async def show(request: Request, session_id: SessionId, tenant: Tenant = "default") -> Response:
        """The memories that the agents of a session have in their context, as far as the service knows."""
        payload = {"tenant": tenant_of(request, tenant), "session_id": session_id}
        return await executor.answer(request, SESSION_SHOW, payload)
