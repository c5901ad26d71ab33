"""Endpoints of sessions and host hooks."""

import asyncio
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from pydantic import ValidationError
from starlette.responses import Response

from hooks.contract import DEFAULT_DEADLINE_MS, Key, KeyName, Reason, SessionEvent, SessionEventResult
from hooks.protocol.repository import project_of
from hooks.protocol.wire import ACK_TIMEOUT
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
from worker.api.problems import invalid
from worker.api.schemas import SessionEventBody
from worker.api.tokens import is_loopback
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of
from worker.operations.registry import HOST_HOOK, SESSION_EVENT, SESSION_SHOW

MOST_FOLDER_CHARS = 4_096

NATIVE = {
    "requestBody": {
        "required": True,
        "description": "The host's native event.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}

NATIVE_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The host's native output; `{}` injects nothing. `Meeseeks-Reason` explains a failure.",
        "content": {"application/json": {"schema": {"type": "object"}}},
    }
}


def add_hooks(app: FastAPI, executor: OperationExecutor) -> None:
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
        host: Annotated[Key, Path(description="Name of the host, such as claude-code or codex.")],
        tenant: Annotated[KeyName | None, Query(description="Tenant.")] = None,
        user: Annotated[KeyName | None, Query(description="User whose own memories are included.")] = None,
        project: Annotated[
            KeyName | None, Query(description="Project; by default derived from the event's folder.")
        ] = None,
        channel: Annotated[KeyName | None, Query(description="Channel of the conversation.")] = None,
        repository: Annotated[Key | None, Query(description="Identity of the event's repository.")] = None,
        folder: Annotated[Key | None, Query(description="Name of the repository's main folder.")] = None,
        explain: Annotated[bool, Query(description="Return `output` and an `explanation` of it.")] = False,
        deadline_ms: Limit = None,
        x_deadline_ms: LimitHeader = None,
    ) -> Response:
        """Serve a host's hook: takes its native event and returns its native output.

        Hosts show errors to users, who cannot fix them, so failures return `{}`, which injects nothing. Only errors of
        the configuration, such as an unknown host or a wrong token, are reported.
        """
        limit = shortest(DEFAULT_DEADLINE_MS, deadline_ms, x_deadline_ms)
        event = _without_files(request, await _event(request))
        if project is None and repository is None:
            repository, folder = await _repository(request, event)
        scope = {"tenant": tenant, "user": user, "project": project, "channel": channel}
        scope |= {"repository": repository, "folder": folder}
        given: dict[str, Any] = {name: value for name, value in scope.items() if value} | {"explain": explain}
        if tenant_of(request, "") or tenant is not None:
            given["tenant"] = tenant_of(request, tenant or "")
        payload = {"host": host, "event": event, "deadline_ms": limit, "scope": given}
        left, ends = seconds_left(request, limit)
        return executor.delivery(await executor.ask(request, HOST_HOOK, payload, budget=left, ack=ACK_TIMEOUT), ends)


async def _repository(request: Request, event: Any) -> tuple[str | None, str | None]:
    """Return what is known of the event's folder. Only folders of hosts on this machine are looked at."""
    folder = event.get("cwd") if isinstance(event, dict) else None
    if not isinstance(folder, str) or not is_loopback(request.client.host if request.client else ""):
        return None, None
    identity, name = await asyncio.to_thread(project_of, folder[:MOST_FOLDER_CHARS])
    return identity or None, name or None


def _without_files(request: Request, event: Any) -> Any:
    """Leave out the transcript if the token is bound to a tenant: files on this machine are not that tenant's."""
    if isinstance(event, dict) and tenant_of(request, ""):
        return {name: value for name, value in event.items() if name != "transcript_path"}
    return event


async def _event(request: Request) -> Any:
    if not is_json(request.headers.get("content-type")):
        raise unsupported("application/json")
    return read_json(await request.body())


def add_sessions(app: FastAPI, executor: OperationExecutor) -> None:
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
        """Report a session event, to keep the ledger correct. Failures return `done: false`."""
        limit = shortest(body.deadline_ms, deadline_ms, x_deadline_ms)
        fields = body.model_dump(mode="json", exclude_none=True) | {"session_id": session_id, "deadline_ms": limit}
        fields["tenant"] = tenant_of(request, body.tenant)
        try:
            payload = SessionEvent.model_validate(fields).model_dump(mode="json", exclude_none=True)
        except ValidationError as error:
            raise invalid(error, "body") from error
        left, _ = seconds_left(request, limit)
        try:
            answer = await executor.ask(request, SESSION_EVENT, payload, budget=left, ack=ACK_TIMEOUT)
        except MeeseeksError as error:
            if reason_of(error) is Reason.BAD_REQUEST:
                raise
            return JsonAnswer(SessionEventResult(done=False, reason=reason_of(error)).model_dump(mode="json"))
        return JsonAnswer(answer.body)

    @app.get(
        "/v1/sessions/{session_id:segment}",
        tags=["run"],
        operation_id="show_session",
        response_model=SESSION_SHOW.result,
    )
    async def show(request: Request, session_id: SessionId, tenant: Tenant = "default") -> Response:
        """List the memories that the agents of a session have in their context, according to the ledger."""
        payload = {"tenant": tenant_of(request, tenant), "session_id": session_id}
        return await executor.answer(request, SESSION_SHOW, payload)
