"""Endpoints for operators: settings, health and metrics."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from hooks.contract import Key
from worker.api.access import grant_of
from worker.api.execution import OperationExecutor, only_for_all
from worker.api.json_bodies import JsonAnswer
from worker.api.problems import Problem
from worker.api.schemas import ServiceStatus
from worker.api.versions import VERSIONED, IfMatch, etag, version_of
from worker.domain.errors import MeeseeksError
from worker.domain.operation import AnyOperation
from worker.operations.job import reason_of
from worker.operations.metrics import CONTENT_TYPE
from worker.operations.registry import (
    HEALTH,
    SETTINGS_GET,
    SETTINGS_HISTORY,
    SETTINGS_PATCH,
    SETTINGS_RESET,
    SETTINGS_UNDO,
)
from worker.operations.requests import SettingsChange, SettingsHistoryRequest
from worker.settings.saved import Interface

READY_S = 2.0
"""Seconds in which a ready service answers."""

AgentId = Annotated[Key, Path(description="Agent id.")]
ALL, ONE = "/v1/settings", "/v1/agents/{agent_id:segment}/settings"


def add_administration(app: FastAPI, executor: OperationExecutor) -> None:
    _add_settings(app, executor)
    _add_agent_settings(app, executor)
    _add_settings_history(app, executor)
    _add_status(app, executor)


async def _answer(
    executor: OperationExecutor, request: Request, operation: AnyOperation, payload: dict[str, Any]
) -> Response:
    """Run an operation that concerns all tenants, and return the settings with their version."""
    only_for_all(request)
    body = (await executor.ask(request, operation, payload)).body
    return JsonAnswer(body, headers=etag(body))


def _author(request: Request) -> dict[str, str]:
    """Return who makes a change. It never comes from the body."""
    return {"name": grant_of(request.scope).caller.author, "via": Interface.HTTP.value}


def _change(request: Request, body: SettingsChange, if_match: str | None) -> dict[str, Any]:
    version = version_of(if_match, body.version)
    return {**body.model_dump(mode="json"), "version": version, "author": _author(request)}


def _add_settings(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get(
        ALL, tags=["settings"], operation_id="get_settings", response_model=SETTINGS_GET.result, responses=VERSIONED
    )
    async def get(request: Request) -> Response:
        """List the settings of all agents with their sources, without secrets."""
        return await _answer(executor, request, SETTINGS_GET, {"agent_id": None})

    @app.patch(
        ALL, tags=["settings"], operation_id="patch_settings", response_model=SETTINGS_PATCH.result, responses=VERSIONED
    )
    async def patch(request: Request, body: SettingsChange, if_match: IfMatch = None) -> Response:
        """Save settings of all agents, or remove saved ones. Every worker uses them from the next request on."""
        payload = {**_change(request, body, if_match), "agent_id": None}
        return await _answer(executor, request, SETTINGS_PATCH, payload)

    @app.delete(
        ALL, tags=["settings"], operation_id="reset_settings", response_model=SETTINGS_RESET.result, responses=VERSIONED
    )
    async def reset(request: Request, if_match: IfMatch = None) -> Response:
        """Remove the saved settings of all agents; those of single agents remain."""
        payload = {"agent_id": None, "version": version_of(if_match), "author": _author(request)}
        return await _answer(executor, request, SETTINGS_RESET, payload)


def _add_agent_settings(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get(
        ONE,
        tags=["settings"],
        operation_id="get_agent_settings",
        response_model=SETTINGS_GET.result,
        responses=VERSIONED,
    )
    async def get(request: Request, agent_id: AgentId) -> Response:
        """List the settings of one agent with their sources."""
        return await _answer(executor, request, SETTINGS_GET, {"agent_id": agent_id})

    @app.patch(
        ONE,
        tags=["settings"],
        operation_id="patch_agent_settings",
        response_model=SETTINGS_PATCH.result,
        responses=VERSIONED,
    )
    async def patch(request: Request, agent_id: AgentId, body: SettingsChange, if_match: IfMatch = None) -> Response:
        """Save settings of one agent, or remove saved ones."""
        payload = {**_change(request, body, if_match), "agent_id": agent_id}
        return await _answer(executor, request, SETTINGS_PATCH, payload)

    @app.delete(
        ONE,
        tags=["settings"],
        operation_id="reset_agent_settings",
        response_model=SETTINGS_RESET.result,
        responses=VERSIONED,
    )
    async def reset(request: Request, agent_id: AgentId, if_match: IfMatch = None) -> Response:
        """Remove the saved settings of one agent."""
        payload = {"agent_id": agent_id, "version": version_of(if_match), "author": _author(request)}
        return await _answer(executor, request, SETTINGS_RESET, payload)


def _add_settings_history(app: FastAPI, executor: OperationExecutor) -> None:
    path = f"{ALL}/changes"

    @app.get(path, tags=["settings"], operation_id="settings_changes", response_model=SETTINGS_HISTORY.result)
    async def changes(request: Request, asked: Annotated[SettingsHistoryRequest, Query()]) -> Response:
        """List who changed which saved settings, newest first."""
        only_for_all(request)
        return await executor.answer(request, SETTINGS_HISTORY, asked.model_dump(mode="json"))

    undo_path = path + "/{change}/undo"

    @app.post(
        undo_path,
        tags=["settings"],
        operation_id="undo_settings_change",
        response_model=SETTINGS_UNDO.result,
        responses=VERSIONED,
    )
    async def undo(request: Request, change: Annotated[int, Path(ge=1, description="Version it made.")]) -> Response:
        """Take a change back, which is a change itself. Refused with 412 if one of its values has changed since."""
        return await _answer(executor, request, SETTINGS_UNDO, {"change": change, "author": _author(request)})


def _add_status(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/healthz", tags=["status"], operation_id="healthz", response_model=ServiceStatus)
    async def healthz() -> Response:
        """Check whether the process is alive. Needs no token."""
        return JsonAnswer(ServiceStatus(status="alive").model_dump(exclude_none=True))

    @app.get("/readyz", tags=["status"], operation_id="readyz", response_model=ServiceStatus)
    async def readyz(request: Request) -> Response:
        """Check whether a worker and the memory store answer, and whether models still load. Needs no token."""
        try:
            health = (await executor.ask(request, HEALTH, {}, budget=READY_S)).body
        except MeeseeksError as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "not ready", reason=reason_of(error)) from error
        loading = [model["name"] for model in health.get("models", ()) if model.get("loading")]
        status = ServiceStatus(status="ready", loading=loading or None)
        return JsonAnswer(status.model_dump(exclude_none=True))

    @app.get(
        "/metrics",
        tags=["status"],
        operation_id="metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics(request: Request) -> Response:
        """Prometheus metrics of all tenants together."""
        only_for_all(request)
        executor.metrics.queue(await executor.look())
        try:
            health = (await executor.ask(request, HEALTH, {}, budget=READY_S)).body
        except MeeseeksError:
            executor.metrics.store(None)
        else:
            executor.metrics.store(health["store"]["points"])
        return Response(executor.metrics.text(), media_type=CONTENT_TYPE)
