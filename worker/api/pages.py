"""Pages for browsers, behind the same access control as the API. What makes them is mounted by the composition root."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from .problems import Problem

JSON = ".json"


@dataclass(frozen=True, slots=True)
class Pages:
    """An application of pages, and the first segments of its paths; that of `/` is empty.

    `open` ones need no session. Those in `harmless` change at most the browser's own cookies, so tokens that only read
    may post to them. `stop` ends streams when the service stops.
    """

    app: Starlette
    segments: frozenset[str]
    static: str
    sign_in: str
    harmless: frozenset[str]
    large: frozenset[str]
    refused: Callable[[Request, int, str], Response]
    stop: Callable[[], None]

    def takes(self, path: str) -> bool:
        return self.segment(path) in self.segments

    def segment(self, path: str) -> str:
        """Return the first segment of a path, the same for a page and its JSON."""
        return path.removeprefix("/").partition("/")[0].removesuffix(JSON)

    def is_static(self, path: str) -> bool:
        return self.segment(path) == self.static

    def is_open(self, path: str) -> bool:
        return self.segment(path) in (self.static, self.sign_in)

    def refusal(self, scope: Scope, problem: Problem) -> Response:
        """Return the response to a refused request: whoever looks at pages is led to where they can sign in."""
        request, headers = Request(scope), Headers(scope=scope)
        if problem.status_code != HTTPStatus.UNAUTHORIZED:
            return self.refused(request, problem.status_code, problem.detail)
        if scope["path"].endswith(JSON) or "text/html" not in headers.get("accept", "text/html"):
            return problem.response
        query = scope["query_string"].decode("ascii", "replace")
        wanted = quote(scope["path"] + (f"?{query}" if query else "")) if scope["method"] == "GET" else "/"
        target = f"/{self.sign_in}?next={wanted}"
        if "hx-request" in headers:
            return Response(status_code=HTTPStatus.UNAUTHORIZED, headers={"HX-Redirect": target})
        return RedirectResponse(target, HTTPStatus.SEE_OTHER)
