"""The endpoints of one memory again, with its id in the query: for ids that no path can hold.

`/v1/memories/export` and `/v1/memories/import` are endpoints of their own, and clients take `.` and `..` out of a path.
"""

from typing import Annotated

from fastapi import FastAPI, Query, Request
from starlette.responses import Response

from hooks.contract import Key
from worker.api.execution import OperationExecutor, Tenant
from worker.api.schemas import ForgetView, MemoryHistory, MemoryView, RelateBody, UpdateBody

from .memories import TAGS, Memories

MemoryId = Annotated[Key, Query(alias="id", description="Which memory; any id there is.")]
ONE = "/v1/memory"


def add_memories_by_id(app: FastAPI, executor: OperationExecutor) -> None:
    memories = Memories(executor)

    @app.get(ONE, tags=TAGS, operation_id="show_memory_by_id", response_model=MemoryHistory)
    async def show(request: Request, memory_id: MemoryId, tenant: Tenant = "default") -> Response:
        """As `GET /v1/memories/{memory_id}`."""
        return await memories.show(request, memory_id, tenant)

    @app.patch(ONE, tags=TAGS, operation_id="update_memory_by_id", response_model=MemoryView)
    async def update(request: Request, memory_id: MemoryId, body: UpdateBody) -> Response:
        """As `PATCH /v1/memories/{memory_id}`."""
        return await memories.update(request, memory_id, body)

    @app.delete(ONE, tags=TAGS, operation_id="forget_by_id", response_model=ForgetView)
    async def forget(request: Request, memory_id: MemoryId, tenant: Tenant = "default") -> Response:
        """As `DELETE /v1/memories/{memory_id}`."""
        return await memories.forget(request, memory_id, tenant)

    @app.post(ONE + "/relations", tags=TAGS, operation_id="relate_by_id", response_model=MemoryView)
    async def relate(request: Request, memory_id: MemoryId, body: RelateBody) -> Response:
        """As `POST /v1/memories/{memory_id}/relations`."""
        return await memories.relate(request, memory_id, body)
