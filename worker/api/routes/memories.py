"""Endpoints of single memories: list, remember, show, update, relate, forget, undo."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import FastAPI, Path, Query, Request
from starlette.responses import Response

from hooks.contract import Key, Reason, Text
from worker.api.execution import OperationExecutor, Tenant, tenant_of
from worker.api.json_bodies import JsonAnswer
from worker.api.problems import Problem
from worker.api.schemas import NULLABLE, MemoryChanges, RelateBody, RememberBody, UndoBody, UpdateBody
from worker.domain.memory import MemoryType
from worker.operations.registry import EXPORT, FORGET, RELATE, REMEMBER, SHOW, UNDO, UPDATE
from worker.operations.requests import MAX_BATCH

ONE = "/v1/memories/{memory_id:memory}"
BY_ID = "/v1/memory"
"""One memory with its id in the query, for ids that a path cannot contain: "export", "import", "." and ".."."""

TAGS: list[Any] = ["memories"]


def add_memories(app: FastAPI, executor: OperationExecutor) -> None:
    _add_listing(app, executor)
    _add_remember(app, executor)
    _add_undo(app, executor)
    _add_single(app, executor, ONE, Path(description="Memory id."), "")
    _add_single(app, executor, BY_ID, Query(alias="id", description="Memory id; any value is possible."), "_by_id")


def _add_listing(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get("/v1/memories", tags=TAGS, operation_id="list_memories", response_model=EXPORT.result)
    async def listing(
        request: Request,
        tenant: Tenant = "default",
        types: Annotated[list[MemoryType] | None, Query(alias="type", description="Only these; repeatable.")] = None,
        user: Annotated[Text | None, Query(description="Only memories of this user.")] = None,
        project: Annotated[Text | None, Query(description="Only memories of this project.")] = None,
        words: Annotated[Text | None, Query(alias="q", description="Only with all of these words in the text.")] = None,
        limit: Annotated[int, Query(ge=1, le=MAX_BATCH)] = 20,
        cursor: Annotated[str | None, Query(description="`cursor` of the previous page.")] = None,
        newest: Annotated[bool, Query(description="Whether to list the newest first.")] = False,
    ) -> Response:
        """List memories page by page, including outdated ones, in no particular order or the newest first."""
        where = {"types": types or [], "user": user, "project": project, "words": words}
        payload = {"tenant": tenant_of(request, tenant), **where, "newest": newest, "limit": limit, "cursor": cursor}
        return await executor.answer(request, EXPORT, payload)


def _add_remember(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post(
        "/v1/memories",
        tags=TAGS,
        operation_id="remember",
        response_model=REMEMBER.result,
        responses={201: {"model": REMEMBER.result, "description": "The memory is new."}},
    )
    async def remember(request: Request, body: RememberBody) -> Response:
        """Store a memory. The same content in the same scope is stored once."""
        memory = body.memory.model_dump(mode="json", exclude_unset=True, exclude_none=True)
        payload = {"tenant": tenant_of(request, body.tenant), "memory": memory, "again": body.again}
        return await executor.answer(request, REMEMBER, payload, status=_created)


def _add_undo(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post("/v1/memories/undo", tags=TAGS, operation_id="undo_forget", response_model=UNDO.result)
    async def undo(request: Request, body: UndoBody) -> Response:
        """Restore deleted memories within ten minutes; without ids, those of the tenant's latest deletion."""
        payload = {"tenant": tenant_of(request, body.tenant), "ids": body.ids}
        return await executor.answer(request, UNDO, payload)


def _created(body: dict[str, Any]) -> int:
    return HTTPStatus.CREATED if body["stored"] == "created" else HTTPStatus.OK


def _add_single(app: FastAPI, executor: OperationExecutor, path: str, place: Any, suffix: str) -> None:
    """Add the endpoints of one memory, with its id at `place`."""

    @app.get(path, tags=TAGS, operation_id=f"show_memory{suffix}", response_model=SHOW.result)
    async def show(request: Request, memory_id: Annotated[Key, place], tenant: Tenant = "default") -> Response:
        """Show a memory with the ones it replaced, the ones that replaced it, and related ones."""
        return await executor.answer(request, SHOW, {"tenant": tenant_of(request, tenant), "id": memory_id})

    @app.patch(path, tags=TAGS, operation_id=f"update_memory{suffix}", response_model=UPDATE.result)
    async def update(request: Request, memory_id: Annotated[Key, place], body: UpdateBody) -> Response:
        """Change fields of a memory. New content creates its next version."""
        payload = {"tenant": tenant_of(request, body.tenant), "id": memory_id, "again": body.again}
        payload["changes"] = _changes(body.changes)
        return await executor.answer(request, UPDATE, payload)

    @app.delete(path, tags=TAGS, operation_id=f"forget{suffix}", response_model=FORGET.result)
    async def forget(
        request: Request,
        memory_id: Annotated[Key, place],
        tenant: Tenant = "default",
        permanent: Annotated[bool, Query(description="Whether to keep nothing for undoing it.")] = False,
    ) -> Response:
        """Delete a memory and every reference to it. For `undo_s` seconds, it can be undone."""
        payload = {"tenant": tenant_of(request, tenant), "ids": [memory_id], "permanent": permanent}
        done = await executor.ask(request, FORGET, payload)
        if not done.body["forgotten"]:
            raise Problem(HTTPStatus.NOT_FOUND, "there is no memory with this id", reason=Reason.NOT_FOUND)
        return JsonAnswer(done.body)

    @app.post(f"{path}/relations", tags=TAGS, operation_id=f"relate{suffix}", response_model=RELATE.result)
    async def relate(request: Request, memory_id: Annotated[Key, place], body: RelateBody) -> Response:
        """Add a relation to another memory."""
        payload = {"tenant": tenant_of(request, body.tenant), "source": memory_id}
        return await executor.answer(request, RELATE, {**payload, "kind": body.kind, "target": body.target})


def _changes(changes: MemoryChanges) -> dict[str, Any]:
    """Return the fields to change. Raise `Problem` if there are none."""
    given = changes.model_dump(mode="json", exclude_unset=True)
    changed = {name: value for name, value in given.items() if value is not None or name in NULLABLE}
    if not changed:
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "changes: name at least one field", reason=Reason.BAD_REQUEST)
    return changed
