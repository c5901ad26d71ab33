"""Endpoints for those who run the service: settings, and how it is."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from hooks.contract import Key
from worker.api.execution import OperationExecutor, only_for_all
from worker.api.json_bodies import JsonAnswer
from worker.api.problems import Problem, problem_of
from worker.api.schemas import ServiceStatus, SettingsChange, SettingsView
from worker.domain.errors import MeeseeksError
from worker.operations.metrics import CONTENT_TYPE
from worker.operations.requests import HEALTH
from worker.operations.settings import SETTINGS_GET, SETTINGS_PATCH, SETTINGS_RESET

READY_S = 2.0
"""Seconds in which a service that is ready answers."""

AgentId = Annotated[Key, Path(description="The agent.")]
ALL, ONE = "/v1/settings", "/v1/agents/{agent_id:segment}/settings"


def add_administration(app: FastAPI, executor: OperationExecutor) -> None:
    _add_settings(app, executor)
    _add_agent_settings(app, executor)
    _add_status(app, executor)


def _add_settings(app: FastAPI, executor: OperationExecutor) -> None:
    async def ask(request: Request, operation: str, payload: dict[str, Any]) -> Response:
        only_for_all(request)
        return await executor.answer(request, operation, payload)

    @app.get(ALL, tags=["settings"], operation_id="get_settings", response_model=SettingsView)
    async def get(request: Request) -> Response:
        """Every setting for all agents, with where it comes from; secrets are left out."""
        return await ask(request, SETTINGS_GET, {})

    @app.patch(ALL, tags=["settings"], operation_id="patch_settings", response_model=SettingsView)
    async def patch(request: Request, body: SettingsChange) -> Response:
        """Save settings for all agents, in force for the next request in every worker; or take saved ones back."""
        return await ask(request, SETTINGS_PATCH, body.model_dump(mode="json"))

    @app.delete(ALL, tags=["settings"], operation_id="reset_settings", response_model=SettingsView)
    async def reset(request: Request) -> Response:
        """Forget what was saved for all agents; what was saved for single ones stays."""
        return await ask(request, SETTINGS_RESET, {})


def _add_agent_settings(app: FastAPI, executor: OperationExecutor) -> None:
    async def ask(request: Request, operation: str, payload: dict[str, Any]) -> Response:
        only_for_all(request)
        return await executor.answer(request, operation, payload)

    @app.get(ONE, tags=["settings"], operation_id="get_agent_settings", response_model=SettingsView)
    async def get(request: Request, agent_id: AgentId) -> Response:
        """Every setting of one agent, with where it comes from."""
        return await ask(request, SETTINGS_GET, {"agent_id": agent_id})

    @app.patch(ONE, tags=["settings"], operation_id="patch_agent_settings", response_model=SettingsView)
    async def patch(request: Request, agent_id: AgentId, body: SettingsChange) -> Response:
        """Save settings of one agent, or take saved ones back."""
        return await ask(request, SETTINGS_PATCH, {**body.model_dump(mode="json"), "agent_id": agent_id})

    @app.delete(ONE, tags=["settings"], operation_id="reset_agent_settings", response_model=SettingsView)
    async def reset(request: Request, agent_id: AgentId) -> Response:
        """Forget what was saved for one agent."""
        return await ask(request, SETTINGS_RESET, {"agent_id": agent_id})


def _add_status(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/healthz", tags=["status"], operation_id="healthz", response_model=ServiceStatus)
    async def healthz() -> Response:
        """Whether the process lives. Needs no token."""
        return JsonAnswer(ServiceStatus(status="alive").model_dump())

    @app.get("/readyz", tags=["status"], operation_id="readyz", response_model=ServiceStatus)
    async def readyz(request: Request) -> Response:
        """Whether requests are served: a worker and the memory store answer. Needs no token."""
        try:
            await executor.ask(request, HEALTH, {}, budget=READY_S)
        except MeeseeksError as error:
            reason = problem_of(error).reason
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, "not ready", reason=reason) from error
        return JsonAnswer(ServiceStatus(status="ready").model_dump())

    @app.get(
        "/metrics",
        tags=["status"],
        operation_id="metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def metrics(request: Request) -> Response:
        """Numbers for Prometheus, of every tenant together."""
        only_for_all(request)
        executor.metrics.queue(await executor.look())
        try:
            health = (await executor.ask(request, HEALTH, {}, budget=READY_S)).body
        except MeeseeksError:
            executor.metrics.store(None)
        else:
            executor.metrics.store(health["store"]["points"])
        return Response(executor.metrics.text(), media_type=CONTENT_TYPE)
