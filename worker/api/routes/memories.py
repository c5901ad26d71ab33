"""Endpoints of single memories: list, remember, show, change, relate, forget."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from hooks.contract import Key, Reason, Text
from worker.api.execution import OperationExecutor, Tenant, tenant_of
from worker.api.json_bodies import JsonAnswer
from worker.api.problems import Problem, problem_of
from worker.api.schemas import (
    NULLABLE,
    ForgetView,
    MemoryChanges,
    MemoryHistory,
    MemoryPage,
    MemoryView,
    RelateBody,
    RememberBody,
    RememberView,
    UpdateBody,
)
from worker.domain.errors import MeeseeksError
from worker.domain.memory import MemoryType
from worker.operations.memories import EXPORT, FORGET, RELATE, REMEMBER, SHOW, UPDATE
from worker.operations.payloads import MAX_BATCH

MemoryId = Annotated[Key, Path(description="Which memory.")]
ONE = "/v1/memories/{memory_id:memory}"
TAGS: list[Any] = ["memories"]


def add_memories(app: FastAPI, executor: OperationExecutor) -> None:
    _add_listing(app, executor)
    _add_remember(app, executor)
    _add_single(app, executor)


class Memories:
    """What the endpoints of one memory do, wherever its id stands."""

    def __init__(self, executor: OperationExecutor) -> None:
        self._executor = executor

    async def show(self, request: Request, memory_id: str, tenant: str) -> Response:
        return await self._executor.answer(request, SHOW, {"tenant": tenant_of(request, tenant), "id": memory_id})

    async def update(self, request: Request, memory_id: str, body: UpdateBody) -> Response:
        payload = {"tenant": tenant_of(request, body.tenant), "id": memory_id, "changes": _changes(body.changes)}
        return await self._executor.answer(request, UPDATE, payload)

    async def forget(self, request: Request, memory_id: str, tenant: str) -> Response:
        payload = {"tenant": tenant_of(request, tenant), "ids": [memory_id]}
        try:
            done = await self._executor.ask(request, FORGET, payload)
        except MeeseeksError as error:
            raise problem_of(error) from error
        if not done.body["forgotten"]:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no memory by that id", reason=Reason.NOT_FOUND)
        return JsonAnswer(done.body)

    async def relate(self, request: Request, memory_id: str, body: RelateBody) -> Response:
        payload = {"tenant": tenant_of(request, body.tenant), "source": memory_id}
        return await self._executor.answer(request, RELATE, {**payload, "kind": body.kind, "target": body.target})


def _add_listing(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/v1/memories", tags=TAGS, operation_id="list_memories", response_model=MemoryPage)
    async def listing(
        request: Request,
        tenant: Tenant = "default",
        types: Annotated[list[MemoryType] | None, Query(alias="type", description="Only these; repeatable.")] = None,
        user: Annotated[Text | None, Query(description="Only what this user owns.")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_BATCH)] = 20,
        cursor: Annotated[str | None, Query(description="Where the page before ended.")] = None,
    ) -> Response:
        """List memories page by page, superseded ones too, in no order that means anything."""
        payload = {"tenant": tenant_of(request, tenant), "types": types or [], "user": user}
        return await executor.answer(request, EXPORT, {**payload, "limit": limit, "cursor": cursor})


def _add_remember(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post(
        "/v1/memories",
        tags=TAGS,
        operation_id="remember",
        response_model=RememberView,
        responses={201: {"model": RememberView, "description": "It is new."}},
    )
    async def remember(request: Request, body: RememberBody) -> Response:
        """Remember one thing; it is stored once this is answered. Saying the same twice stores it once."""
        memory = body.memory.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        payload = {"tenant": tenant_of(request, body.tenant), "memory": memory}
        return await executor.answer(request, REMEMBER, payload, status=_created)


def _created(body: dict[str, Any]) -> int:
    return HTTPStatus.CREATED if body["stored"] == "created" else HTTPStatus.OK


def _add_single(app: FastAPI, executor: OperationExecutor) -> None:
    memories = Memories(executor)

    @app.get(ONE, tags=TAGS, operation_id="show_memory", response_model=MemoryHistory)
    async def show(request: Request, memory_id: MemoryId, tenant: Tenant = "default") -> Response:
        """One memory, what it replaced, what replaced it, and what is related to it."""
        return await memories.show(request, memory_id, tenant)

    @app.patch(ONE, tags=TAGS, operation_id="update_memory", response_model=MemoryView)
    async def update(request: Request, memory_id: MemoryId, body: UpdateBody) -> Response:
        """Change a memory; what is not said stays as it is. A new text is its next version."""
        return await memories.update(request, memory_id, body)

    @app.delete(ONE, tags=TAGS, operation_id="forget", response_model=ForgetView)
    async def forget(request: Request, memory_id: MemoryId, tenant: Tenant = "default") -> Response:
        """Delete a memory for good, with every mention of it in others."""
        return await memories.forget(request, memory_id, tenant)

    @app.post(ONE + "/relations", tags=TAGS, operation_id="relate", response_model=MemoryView)
    async def relate(request: Request, memory_id: MemoryId, body: RelateBody) -> Response:
        """Relate a memory to another one."""
        return await memories.relate(request, memory_id, body)


def _changes(changes: MemoryChanges) -> dict[str, Any]:
    """What is to be changed. Raises `Problem` where that is nothing."""
    given = changes.model_dump(mode="json", exclude_unset=True)
    wanted = {name: value for name, value in given.items() if value is not None or name in NULLABLE}
    if not wanted:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "changes: say at least one", reason=Reason.BAD_REQUEST)
    return wanted
