"""The application: every endpoint behind one gate, its errors as problem documents, and its description (OpenAPI)."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match

from hooks.contract import SCHEMA_VERSION, Reason
from worker.api.routes.administration import add_administration
from worker.api.routes.answers import add_answering
from worker.api.routes.injection import add_injecting
from worker.api.routes.memories import add_memories
from worker.api.routes.memories_by_id import add_memories_by_id
from worker.api.routes.receipts import add_receipts
from worker.api.routes.transfers import add_transfers
from worker.operations.client import LocalOperationClient
from worker.operations.metrics import Metrics

from .access import OPEN, AccessControl, Policy, refusal
from .execution import ClientGone, OperationExecutor, left_alone
from .json_bodies import JsonRoute
from .paths import know_segments
from .problems import MEDIA_TYPE, Problem, ProblemDocument, invalid, title_of

DISTRIBUTION = "memory-meeseeks"

REFUSALS: dict[str, str] = {
    "400": "The body is not JSON that can be read.",
    "401": "A token is needed, or it is not accepted.",
    "403": "The token is not for this.",
    "404": "There is nothing by that name.",
    "408": "The body does not come.",
    "413": "The body is too long.",
    "415": "The body is of another type than this takes.",
    "421": "The service is not called by this name.",
    "422": "The request does not follow this description.",
    "429": "Too many requests.",
    "500": "Something broke that nobody foresaw.",
    "502": "A worker's answer cannot be read.",
    "503": "A part of the service does not answer, or it is busy.",
    "504": "No answer came in time.",
}
"""What every endpoint may answer instead, by status."""

DESCRIPTION = """Memory for agents: what a worker ought to remember, before it runs.

Answers may grow fields and reasons; callers ignore what they do not know. Nothing that is here goes away within /v1."""

log = structlog.get_logger()


def create_app(
    executor: OperationExecutor, policy: Policy, *, mounts: Mapping[str, Starlette] | None = None
) -> FastAPI:
    """The service over whatever `door.backend` reaches.

    `mounts` are further applications by the path that they serve, such as `/mcp`: they see the whole path and the
    requests that have passed the gate; `gate.passage_of(scope).caller` says whose token it was. They are started and
    stopped with this one.
    """
    mounted = dict(mounts or {})
    app = FastAPI(
        title="Meeseeks",
        version=SCHEMA_VERSION,
        description=DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        redirect_slashes=False,
        lifespan=lambda _: _running(mounted),
    )
    know_segments()
    app.router.route_class = JsonRoute
    app.add_middleware(AccessControl, policy=policy, metrics=executor.metrics, mounts=mounted)
    _add_handlers(app, executor)
    add_injecting(app, executor)
    add_transfers(app, executor)
    add_memories(app, executor)
    add_memories_by_id(app, executor)
    add_answering(app, executor)
    add_receipts(app, executor)
    add_administration(app, executor)
    app.openapi = lambda: described(app)  # type: ignore[method-assign]
    return app


@asynccontextmanager
async def _running(mounted: Mapping[str, Starlette]) -> AsyncIterator[None]:
    async with AsyncExitStack() as stack:
        for app in mounted.values():
            await stack.enter_async_context(app.router.lifespan_context(app))
        yield


def _add_handlers(app: FastAPI, executor: OperationExecutor) -> None:
    """Every error becomes a problem document, and none repeats what was sent."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = error if isinstance(error, Problem) else _plain(app, request, error)
        return refusal(request.scope["path"], problem)

    async def misunderstood(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refusal(request.scope["path"], invalid(error.errors()))

    async def deserted(request: Request, error: Exception) -> Response:
        executor.metrics.delivered("gone")
        return left_alone(request)

    async def crashed(request: Request, error: Exception) -> Response:
        log.error("http_crashed", error=type(error).__name__)
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return refusal(request.scope["path"], Problem(status, title_of(status), reason=Reason.INTERNAL))

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, misunderstood)
    app.add_exception_handler(ClientGone, deserted)
    app.add_exception_handler(ClientDisconnect, deserted)
    app.add_exception_handler(Exception, crashed)


def _plain(app: FastAPI, request: Request, error: HTTPException) -> Problem:
    """What the router refuses, in words; it names the methods of one endpoint of a path only, and here all are."""
    words = {404: "there is nothing at this path", 405: "this path takes other methods, see the Allow header"}
    detail = words.get(error.status_code, title_of(error.status_code))
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        fitting = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
        headers["Allow"] = ", ".join(sorted({method for route in fitting for method in getattr(route, "methods", ())}))
    return Problem(error.status_code, detail, headers=headers)


def described(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _completed(
            get_openapi(
                title=app.title,
                version=app.version,
                summary=f"{DISTRIBUTION} over HTTP",
                description=app.description,
                routes=app.routes,
            )
        )
    return app.openapi_schema


def _completed(document: dict[str, Any]) -> dict[str, Any]:
    """With what holds for every endpoint: the token, and the doubts."""
    components = document["components"]
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    schemas = components["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = ProblemDocument.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["ProblemDocument"] = problem
    components["responses"] = {f"Problem{status}": _problem(text) for status, text in REFUSALS.items()}
    for path, operations in document["paths"].items():
        for operation in operations.values():
            for parameter in operation.get("parameters", ()):
                parameter["schema"] = _without_null(parameter["schema"])
            operation["security"] = [] if path in OPEN else [{"token": []}]
            shared = {status: {"$ref": f"#/components/responses/Problem{status}"} for status in REFUSALS}
            operation["responses"] = {**operation["responses"], **shared}
    components["schemas"] = dict(sorted(schemas.items()))
    return document


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """A parameter that is not there is left out: no text in an address or a header means null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    others = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**others, **kinds[0]} if len(kinds) == 1 else schema


def _problem(text: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }


def document() -> dict[str, Any]:
    """The OpenAPI document, without a service."""

    async def nobody() -> None:
        return None

    return described(create_app(OperationExecutor(LocalOperationClient({}), Metrics(), nobody), Policy()))
