"""Endpoints of upkeep: start a run, read reports, and undo a run."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Request
from starlette.responses import Response

from hooks.contract import Key
from worker.api.execution import OperationExecutor, Tenant, tenant_of
from worker.api.schemas import UpkeepBody
from worker.domain.upkeep import RUN_UNDO_S
from worker.operations.registry import UPKEEP, UPKEEP_SHOW, UPKEEP_UNDO
from worker.operations.requests import TenantRequest

TAGS: list[Any] = ["upkeep"]

RunId = Annotated[Key, Path(description="Id of a run.")]


def add_upkeep(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post(
        "/v1/upkeep",
        tags=TAGS,
        operation_id="start_upkeep",
        response_model=UPKEEP.result,
        status_code=HTTPStatus.ACCEPTED,
    )
    async def start(request: Request, body: UpkeepBody) -> Response:
        """Start a run over the memories of a tenant; read its progress and report with its id."""
        payload = {"tenant": tenant_of(request, body.tenant), "apply": body.apply}
        return await executor.answer(request, UPKEEP, payload, status=lambda _: HTTPStatus.ACCEPTED)

    @app.get("/v1/upkeep", tags=TAGS, operation_id="last_upkeep", response_model=UPKEEP_SHOW.result)
    async def last(request: Request, tenant: Tenant = "default") -> Response:
        """Show the latest run of a tenant and its report."""
        return await executor.answer(request, UPKEEP_SHOW, {"tenant": tenant_of(request, tenant)})

    @app.get("/v1/upkeep/{run_id}", tags=TAGS, operation_id="show_upkeep", response_model=UPKEEP_SHOW.result)
    async def show(request: Request, run_id: RunId, tenant: Tenant = "default") -> Response:
        """Show a run and its report."""
        return await executor.answer(request, UPKEEP_SHOW, {"tenant": tenant_of(request, tenant), "id": run_id})

    @app.post("/v1/upkeep/{run_id}/undo", tags=TAGS, operation_id="undo_upkeep", response_model=UPKEEP_UNDO.result)
    async def undo(request: Request, run_id: RunId, body: TenantRequest) -> Response:
        """Undo what a run has changed. The next runs do not change it again."""
        payload = {"tenant": tenant_of(request, body.tenant), "id": run_id}
        return await executor.answer(request, UPKEEP_UNDO, payload, budget=RUN_UNDO_S)
