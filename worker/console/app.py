"""The application of the console: every page and every form, with what they share."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus

from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from worker.domain.errors import MeeseeksError
from worker.domain.receipt_summary import ReceiptSummary
from worker.operations.client import OperationClient, QueueLook
from worker.operations.statuses import status_of
from worker.ports.evaluations import EvaluationState

from .access import AccessControl
from .errors import PageError
from .evaluation_words import row_of as evaluation_row
from .live import LiveRequests
from .live_evaluations import LiveEvaluations
from .rendering import FOR_TENANT, Renderer, Shown, as_json
from .request_words import row_of
from .security import FIELD, HEADERS, check_form
from .static_files import SEGMENT as STATIC
from .static_files import StaticFiles
from .visits import JSON, Visit, tenant_of, tenant_shown, text_in, wants_json, wants_part

Handler = Callable[[Visit], Awaitable[Shown | Response]]

INDEX_JSON = "/overview.json"
"""The JSON of `/`, which has no name of its own."""


class ErrorPage(BaseModel):
    """What the page of an error shows."""

    status: int
    title: str
    detail: str


@dataclass(frozen=True, slots=True)
class Console:
    """What the pages share."""

    backend: OperationClient
    access: AccessControl
    look: QueueLook
    static: StaticFiles
    renderer: Renderer
    live: LiveRequests
    evaluations: LiveEvaluations

    def page(self, path: str, handler: Handler) -> list[Route]:
        """Return the routes of a page and of its JSON."""
        json_path = INDEX_JSON if path == "/" else path + JSON
        return [Route(one, self.serving(handler), methods=["GET"]) for one in (path, json_path)]

    def action(self, path: str, handler: Handler) -> list[Route]:
        """Return the route of a form. What is posted to it changes something, so its token is checked first."""
        return [Route(path, self.serving(handler), methods=["POST"])]

    def serving(self, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
        """Return the endpoint of a handler."""

        async def serve(request: Request) -> Response:
            visit = None
            try:
                visit = await self._visit(request)
                shown = await handler(visit)
            except PageError as error:
                return self.error(request, error.status, error.detail, visit)
            except MeeseeksError as error:
                return self.error(request, status_of(error), str(error), visit)
            finally:
                await request.close()  # uploaded files
            if isinstance(shown, Response):
                return shown
            if visit.wants_json:
                return as_json(shown)
            return self.renderer.page(shown, request, visit.visitor, visit.tenant, part=wants_part(request))

        return serve

    async def _visit(self, request: Request) -> Visit:
        visitor = self.access.caller_of(request.scope)
        form = FormData()
        if request.method == "POST":
            form = await request.form()
            check_form(request, text_in(form, FIELD))
        return Visit(request, visitor, tenant_of(request, visitor, text_in(form, FOR_TENANT)), self.backend, form)

    def error(self, request: Request, status: int, detail: str, visit: Visit | None = None) -> Response:
        """Return the page of an error, for htmx only its words; `visit` is known if its request could be read."""
        data = ErrorPage(status=status, title=HTTPStatus(status).phrase, detail=detail)
        if wants_json(request):
            return JSONResponse(data.model_dump(), status, HEADERS)
        shown = Shown("error.html", data.title, data, status, part="error_part.html")
        visitor = self.access.caller_of(request.scope)
        tenant = visit.tenant if visit else tenant_shown(request, visitor)
        return self.renderer.page(shown, request, visitor, tenant, part=wants_part(request))

    async def unroutable(self, request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        details = {404: "There is no such page.", 405: "This address only takes what its form sends."}
        return self.error(request, error.status_code, details.get(error.status_code, error.detail))


@cache
def _rendering() -> tuple[StaticFiles, Renderer]:
    """Read the files and compile the templates once for all consoles of a process."""
    static = StaticFiles()
    return static, Renderer(static)


def make_console(backend: OperationClient, access: AccessControl, look: QueueLook) -> Console:
    static, renderer = _rendering()

    def rows(summaries: Sequence[ReceiptSummary]) -> str:
        return renderer.fill("request_rows.html", rows=[row_of(one) for one in summaries])

    def progress(running: Sequence[EvaluationState]) -> str:
        return renderer.fill("evaluation_progress.html", running=[evaluation_row(one) for one in running])

    live = LiveRequests(backend, rows)
    return Console(backend, access, look, static, renderer, live, LiveEvaluations(backend, live.stopping, progress))


def make_app(console: Console, routes: Sequence[Route]) -> Starlette:
    """Return the application; put it behind the access control of the HTTP service."""
    static = Route(f"/{STATIC}/{{name:path}}", console.static.serve, methods=["GET"])
    app = Starlette(routes=[*routes, static])
    app.add_exception_handler(HTTPException, console.unroutable)
    app.router.redirect_slashes = False
    return app
