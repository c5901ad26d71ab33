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

from worker.operations.metrics import Metrics

from .paths import segmented
from .problems import Problem
from .rate_limit import RateLimit
from .tokens import Client, Tokens, bearer, name_in

OPEN = frozenset({"/healthz", "/readyz", "/openapi.json"})
"""Paths that need no token: they reveal nothing about users."""

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Frequently polled paths, which are logged at debug level."""

HOOKS = "/v1/hooks/"
IMPORT = "/v1/memories/import"

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


class AccessControl:
    """The outermost middleware. `mounts` maps path prefixes to further applications."""

    def __init__(self, app: ASGIApp, policy: Policy, metrics: Metrics, mounts: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._policy = policy
        self._metrics = metrics
        self._mounts = mounts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        grant = AccessGrant(Client(_address(scope)), time.monotonic())
        scope.setdefault("state", {})["grant"] = grant
        watched = _Watched(send)
        try:
            self._check(scope, grant)
        except Problem as problem:
            await refusal(scope["path"], problem)(scope, receive, watched.send)
        else:
            mount = self._mount(scope["path"])
            app = self._mounts[mount] if mount else self._app
            watched.body = limited = _Limited(scope, receive, self._limit(scope["path"]))
            if not mount:
                scope["path"] = segmented(scope)
            await app(scope, limited.receive, watched.send)
        finally:
            self._record(scope, grant, watched.status)

    def _mount(self, path: str) -> str | None:
        return next((one for one in self._mounts if path == one or path.startswith(one + "/")), None)

    def _limit(self, path: str) -> int:
        return self._policy.import_limit if path == IMPORT else self._policy.body_limit

    def _check(self, scope: Scope, grant: AccessGrant) -> None:
        """Raise `Problem` if access is denied."""
        if self._policy.names is not None:
            _check_names(scope, self._policy.names)
        known = self._identified(scope)
        grant.caller = known or grant.caller
        wait = self._policy.rate.take(grant.caller.name, grant.arrived)
        if wait > 0:
            headers = {"Retry-After": str(ceil(wait))}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; retry later", headers=headers)
        if known is None and self._policy.tokens.known and scope["path"] not in OPEN:
            raise Problem(
                HTTPStatus.UNAUTHORIZED,
                "send a valid token: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _identified(self, scope: Scope) -> Client | None:
        token = bearer(scope["headers"]) if self._policy.tokens.known else None
        return self._policy.tokens.find(token) if token is not None else None

    def _record(self, scope: Scope, grant: AccessGrant, status: int | None) -> None:
        path, seconds = scope["path"], time.monotonic() - grant.arrived
        route = self._mount(path) or str(getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE))
        final = grant.note or status or HTTPStatus.INTERNAL_SERVER_ERROR
        self._metrics.requested(scope["method"], route, final, seconds)
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
