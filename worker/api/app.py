"""The FastAPI application: endpoints behind access control, problem documents and the OpenAPI document."""

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
from worker.api.routes.captures import add_captures
from worker.api.routes.injection import add_injecting
from worker.api.routes.memories import add_memories
from worker.api.routes.receipts import add_receipts
from worker.api.routes.transfers import add_transfers
from worker.api.routes.upkeep import add_upkeep
from worker.domain.errors import MeeseeksError
from worker.operations.local_client import LocalOperationClient
from worker.operations.metrics import Metrics
from worker.ports.tracing import NO_TRACER, Tracer

from .access import OPEN, AccessControl, Policy, refusal
from .execution import ClientGone, OperationExecutor, abandoned
from .json_bodies import JsonRoute
from .pages import Pages
from .paths import register_convertors
from .problems import MEDIA_TYPE, Problem, ProblemDocument, invalid, problem_of, title_of

DISTRIBUTION = "memory-meeseeks"

REFUSALS: dict[str, str] = {
    "400": "The body is not valid JSON.",
    "401": "The token is missing or invalid.",
    "403": "The token does not allow this.",
    "404": "Not found.",
    "408": "The body did not arrive in time.",
    "412": "Others have changed it since the version that the request names, or would undo.",
    "413": "The body is too long.",
    "415": "The Content-Type is not supported.",
    "421": "The service does not answer to this host name.",
    "422": "The request is invalid.",
    "429": "Too many requests.",
    "500": "Internal error.",
    "502": "A worker returned an invalid result.",
    "503": "A part of the service is busy or unavailable.",
    "504": "The deadline passed.",
}
"""Error responses of every endpoint."""

DESCRIPTION = """Automatic memory for AI agents.

Responses may gain fields and reasons; ignore the ones you do not know. Nothing is removed within /v1."""

log = structlog.get_logger()


def create_app(
    executor: OperationExecutor,
    policy: Policy,
    *,
    mounts: Mapping[str, Starlette] | None = None,
    pages: Pages | None = None,
    tracer: Tracer = NO_TRACER,
) -> FastAPI:
    """Create the HTTP application, with `pages` for browsers beside the API.

    `mounts` maps paths such as `/mcp` to further applications. They share access control and the lifespan of this one,
    see the whole path, and find the caller in `access.grant_of(scope)`.
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
    register_convertors()
    app.router.route_class = JsonRoute
    app.add_middleware(
        AccessControl, policy=policy, metrics=executor.metrics, mounts=mounted, pages=pages, tracer=tracer
    )
    _add_handlers(app, executor)
    add_injecting(app, executor)
    add_transfers(app, executor)
    add_memories(app, executor)
    add_answering(app, executor)
    add_captures(app, executor)
    add_upkeep(app, executor)
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
    """Turn every error into a problem document that does not repeat request data."""

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        problem = error if isinstance(error, Problem) else _plain(app, request, error)
        return refusal(request.scope["path"], problem)

    async def invalid_request(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return refusal(request.scope["path"], invalid(error.errors()))

    async def failed(request: Request, error: Exception) -> Response:
        assert isinstance(error, MeeseeksError)
        return refusal(request.scope["path"], problem_of(error))

    async def client_gone(request: Request, error: Exception) -> Response:
        executor.metrics.delivered("gone")
        return abandoned(request)

    async def crashed(request: Request, error: Exception) -> Response:
        # Starlette wraps an error that follows the start of a response
        log.error("http_crashed", error=type(error.__cause__ or error).__name__)
        status = HTTPStatus.INTERNAL_SERVER_ERROR
        return refusal(request.scope["path"], Problem(status, title_of(status), reason=Reason.INTERNAL))

    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(RequestValidationError, invalid_request)
    app.add_exception_handler(MeeseeksError, failed)
    app.add_exception_handler(ClientGone, client_gone)
    app.add_exception_handler(ClientDisconnect, client_gone)
    app.add_exception_handler(Exception, crashed)


def _plain(app: FastAPI, request: Request, error: HTTPException) -> Problem:
    """Return the router's error as a problem; `Allow` names the methods of the path, or else of all that fit it."""
    details = {404: "unknown path", 405: "method not allowed; see the Allow header"}
    detail = details.get(error.status_code, title_of(error.status_code))
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        fitting = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
        same = [route for route in fitting if getattr(route, "path", None) == request.url.path]
        headers["Allow"] = ", ".join(
            sorted({method for route in same or fitting for method in getattr(route, "methods", ())})
        )
    return Problem(error.status_code, detail, headers=headers)


def described(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, built once."""
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
    """Add the token and the error responses to every endpoint."""
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
    """Remove null: an absent parameter is left out, and no text in a URL or header means null."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    others = {name: value for name, value in schema.items() if name != "anyOf"}
    return {**others, **kinds[0]} if len(kinds) == 1 else schema


def _problem(text: str) -> dict[str, Any]:
    return {
        "description": text,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDocument"}}},
    }


def document() -> dict[str, Any]:
    """Return the OpenAPI document without a service."""

    async def nobody() -> None:
        return None

    return described(create_app(OperationExecutor(LocalOperationClient({}), Metrics(), nobody), Policy()))
