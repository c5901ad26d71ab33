"""Access control for every request: token, rate limit, body size and origin. Logs and counts the responses."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from math import ceil

import structlog
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worker.operations.metrics import METHODS, Metrics
from worker.ports.tracing import NO_TRACER, Attribute, Span, SpanKind, Tracer

from .pages import Pages
from .paths import segmented
from .problems import Problem
from .rate_limit import RateLimit
from .sessions import Sessions
from .tokens import Client, Tokens, bearer, name_in

OPEN = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Paths that need no token: they reveal nothing about users."""

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Frequently polled paths, which are logged at debug level."""

TRACED = "/v1/"
"""Paths of requests that are traced: those of programs."""

HOOKS = "/v1/hooks/"
IMPORT = "/v1/memories/import"

READING = frozenset({"GET", "HEAD", "OPTIONS"})
READING_POSTS = frozenset({"/v1/recall"})
"""What tokens that only read may do: these methods, and the search."""

UNKNOWN_ROUTE = "unknown"

PART_S = 30.0
"""Seconds in which the next part of a body must arrive."""

LINGER_S = 2.0
"""Seconds in which a caller may go on sending a body that was refused."""

log = structlog.get_logger()


@dataclass(slots=True)
class AccessGrant:
    """The caller of a request and its arrival in monotonic seconds. `note` overrides the logged status."""

    caller: Client
    arrived: float
    note: int | None = None


def grant_of(scope: Scope) -> AccessGrant:
    """Return the grant of a request that passed access control."""
    grant: AccessGrant = scope["state"]["grant"]
    return grant


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of access. `names` are the allowed host names; `None` allows any."""

    tokens: Tokens = field(default_factory=Tokens)
    names: frozenset[str] | None = None
    body_limit: int = 1 << 20
    import_limit: int = 1 << 28
    rate: RateLimit = field(default_factory=lambda: RateLimit(0))
    sessions: Sessions = field(default_factory=lambda: Sessions(Tokens()))


class AccessControl:
    """The outermost middleware. `mounts` maps path prefixes to further applications; `pages` are for browsers."""

    def __init__(
        self,
        app: ASGIApp,
        policy: Policy,
        metrics: Metrics,
        mounts: Mapping[str, ASGIApp],
        pages: Pages | None = None,
        tracer: Tracer = NO_TRACER,
    ) -> None:
        self._tracer = tracer
        self._app = app
        self._policy = policy
        self._metrics = metrics
        self._mounts = mounts
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        tracer = self._tracer if scope["path"].startswith(TRACED) else NO_TRACER
        with tracer.span("http", SpanKind.SERVER, parent=_traceparent(scope)) as span:
            await self._answer(scope, receive, send, span)

    async def _answer(self, scope: Scope, receive: Receive, send: Send, span: Span) -> None:
        grant = AccessGrant(Client(_address(scope)), time.monotonic())
        scope.setdefault("state", {})["grant"] = grant
        watched = _Watched(send)
        try:
            self._check(scope, grant)
        except Problem as problem:
            await self._refusal(scope, problem)(scope, receive, watched.send)
        else:
            watched.body = limited = _Limited(scope, receive, self._limit(scope["path"]))
            await self._chosen(scope)(scope, limited.receive, watched.send)
        finally:
            self._record(scope, grant, watched.status, span)

    def _chosen(self, scope: Scope) -> ASGIApp:
        """Return the application that a request is for; the paths of the API become segments."""
        if (mount := self._mount(scope["path"])) is not None:
            return self._mounts[mount]
        if (pages := self._pages_of(scope["path"])) is not None:
            return pages.app
        scope["path"] = segmented(scope)
        return self._app

    def _pages_of(self, path: str) -> Pages | None:
        return self._pages if self._pages is not None and self._pages.takes(path) else None

    def _refusal(self, scope: Scope, problem: Problem) -> Response:
        pages = self._pages_of(scope["path"])
        return pages.refusal(scope, problem) if pages else refusal(scope["path"], problem)

    def _mount(self, path: str) -> str | None:
        return next((one for one in self._mounts if path == one or path.startswith(one + "/")), None)

    def _limit(self, path: str) -> int:
        large = path == IMPORT or (self._pages is not None and path in self._pages.large)
        return self._policy.import_limit if large else self._policy.body_limit

    def _check(self, scope: Scope, grant: AccessGrant) -> None:
        """Raise `Problem` if access is denied."""
        if self._policy.names is not None:
            _check_names(scope, self._policy.names)
        path, pages = scope["path"], self._pages_of(scope["path"])
        known = self._identified(scope, pages)
        grant.caller = known or grant.caller
        if pages is None or not pages.is_static(path):
            self._check_rate(grant)
        if known is None and self._policy.tokens.known and not (pages.is_open(path) if pages else path in OPEN):
            raise Problem(
                HTTPStatus.UNAUTHORIZED,
                "send a valid token: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )
        reads = scope["method"] in READING or path in (pages.harmless if pages else READING_POSTS)
        if not (grant.caller.may_write or reads):
            raise Problem(HTTPStatus.FORBIDDEN, "this token may only read; use one without role=read-only")

    def _check_rate(self, grant: AccessGrant) -> None:
        wait = self._policy.rate.take(grant.caller.name, grant.arrived)
        if wait > 0:
            headers = {"Retry-After": str(ceil(wait))}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; retry later", headers=headers)

    def _identified(self, scope: Scope, pages: Pages | None) -> Client | None:
        """Return whose token was sent, for pages also whose session the cookie is."""
        if not self._policy.tokens.known:
            return None
        if (token := bearer(scope["headers"])) is not None:
            return self._policy.tokens.find(token)
        return self._policy.sessions.caller(scope["headers"]) if pages is not None else None

    def _record(self, scope: Scope, grant: AccessGrant, status: int | None, span: Span) -> None:
        path, seconds = scope["path"], time.monotonic() - grant.arrived
        route = self._mount(path) or str(getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE))
        if (pages := self._pages_of(path)) is not None:
            route = f"/{pages.segment(path)}"
        final = grant.note or status or HTTPStatus.INTERNAL_SERVER_ERROR
        self._metrics.requested(scope["method"], route, final, seconds)
        _describe(span, scope["method"] if scope["method"] in METHODS else "_OTHER", route, int(final))
        write = log.debug if path in QUIET else log.info
        write(
            "http",
            method=scope["method"] if scope["method"].isalpha() else "other",
            route=route,
            status=int(final),
            caller=grant.caller.name,
            elapsed_ms=round(seconds * 1000, 1),
        )


def refusal(path: str, problem: Problem) -> Response:
    """Return the response to a refused request.

    Hosts show errors to users, who cannot fix a busy service, so hooks get an empty result. Errors of their
    configuration, which includes the query, are reported.
    """
    lasting = {HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
    lasting |= {HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST}
    configured = problem.status_code in lasting or any(fault.at[:1] == ["query"] for fault in problem.faults)
    if not path.startswith(HOOKS) or configured:
        return problem.response
    headers = {"Meeseeks-Reason": problem.reason or str(problem.status_code)}
    return Response(b"{}", HTTPStatus.OK, headers, "application/json")


def _check_names(scope: Scope, names: frozenset[str]) -> None:
    """Refuse web pages that reach this machine by DNS rebinding or from another origin."""
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or name_in(hosts[0]) not in names:
        raise Problem(HTTPStatus.MISDIRECTED_REQUEST, "without a token, this service only answers to localhost")
    origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
    if any(name_in(origin) not in names for origin in origins):
        raise Problem(HTTPStatus.FORBIDDEN, "without a token, this service refuses requests of other origins")


def _describe(span: Span, method: str, route: str, status: int) -> None:
    """Note what was asked for and the status, but not the path, which may hold an id."""
    facts: dict[str, Attribute] = {
        "http.request.method": method,
        "http.route": route,
        "http.response.status_code": status,
    }
    span.note(facts, name=f"{method} {route}")
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        span.fail(str(status))


def _traceparent(scope: Scope) -> str | None:
    """Return the caller's span; the header must not be repeated."""
    found = [value.decode("latin-1") for name, value in scope["headers"] if name == b"traceparent"]
    return found[0] if len(found) == 1 else None


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "local"


class _Watched:
    """Passes a response on and keeps its status.

    A caller whose body is too long may still be sending it, and would see a broken connection instead of the response
    if it were closed at once. So the response is ended once the rest of the body has been discarded, within limits.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None
        self.body: _Limited | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif self.body is not None and self.body.exceeded:
            await self._send({**message, "more_body": True})
            await self.body.discard_rest()
            message = {"type": "http.response.body", "body": b""}
        await self._send(message)


class _Limited:
    """Passes a body on and enforces its limit."""

    def __init__(self, scope: Scope, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._seen = 0
        self._whole = False
        self.exceeded = False
        self._announced = _announced_length(scope)
        self._waits = any(name == b"expect" for name, _ in scope["headers"])

    async def receive(self) -> Message:
        self._check(self._announced)  # before reading the body or sending "100 Continue"
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(PART_S):
                message = await self._receive()
        except TimeoutError as error:
            detail = f"no part of the body arrived for {PART_S:g} seconds"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, detail, headers={"Connection": "close"}) from error
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            self._check(self._seen)
        return message

    async def discard_rest(self) -> None:
        """Read what is left of the body, for at most `LINGER_S`, unless the caller waits for leave to send it."""
        if self._waits:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self._whole:
                    message = await self._receive()
                    self._whole = message["type"] != "http.request" or not message.get("more_body", False)

    def _check(self, length: int) -> None:
        if length > self._limit:
            self.exceeded = True
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body is longer than {self._limit} bytes",
                headers={"Connection": "close"},
            )


def _announced_length(scope: Scope) -> int:
    """Return the body length that the headers announce, or 0."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return max((int(value) for value in lengths if value.isdigit() and len(value) < 20), default=0)
