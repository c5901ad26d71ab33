"""What every request passes before it is served, whatever serves it: who asks, how often, how much, and from where.

It also says of each request, once it is answered, that it was: in the log and in the metrics, without what was said.
"""

import asyncio
import time
from collections.abc import Mapping
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
"""Paths that need no token: they say nothing about anybody."""

QUIET = frozenset({"/healthz", "/readyz", "/metrics"})
"""Paths whose requests the log has at debug level only: somebody asks for them all the time."""

HOOKS = "/v1/hooks/"
IMPORT = "/v1/memories/import"

UNKNOWN_ROUTE = "unknown"

PIECE_S = 30.0
"""Seconds in which the next piece of a body must come."""

log = structlog.get_logger()


@dataclass(slots=True)
class AccessGrant:
    """What is known of a request that has passed: who makes it and since when it waits, in monotonic seconds.

    `note` is for the log and may hold a status that nobody receives.
    """

    caller: Client
    arrived: float
    note: int | None = None


def passage_of(scope: Scope) -> AccessGrant:
    """Of a request that the gate let pass."""
    passage: AccessGrant = scope["state"]["passage"]
    return passage


@dataclass(frozen=True, slots=True)
class Policy:
    """What is let pass. `names` are the only ones by which the service may be called, `None` is any."""

    tokens: Tokens = field(default_factory=Tokens)
    names: frozenset[str] | None = None
    body_limit: int = 1 << 20
    import_limit: int = 1 << 28
    rate: RateLimit = field(default_factory=lambda: RateLimit(0))


class AccessControl:
    """The outermost layer. `mounts` are applications by the path below which each of them serves."""

    def __init__(self, app: ASGIApp, policy: Policy, metrics: Metrics, mounts: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._policy = policy
        self._metrics = metrics
        self._mounts = mounts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        passage = AccessGrant(Client(_address(scope)), time.monotonic())
        scope.setdefault("state", {})["passage"] = passage
        watched = _Watched(send)
        try:
            self._check(scope, passage)
        except Problem as problem:
            await refusal(scope["path"], problem)(scope, receive, watched.send)
        else:
            mount = self._mount(scope["path"])
            app = self._mounts[mount] if mount else self._app
            limited = _Limited(scope, receive, self._limit(scope["path"]))
            if not mount:
                scope["path"] = segmented(scope)
            await app(scope, limited.receive, watched.send)
        finally:
            self._tell(scope, passage, watched.status)

    def _mount(self, path: str) -> str | None:
        return next((one for one in self._mounts if path == one or path.startswith(one + "/")), None)

    def _limit(self, path: str) -> int:
        return self._policy.import_limit if path == IMPORT else self._policy.body_limit

    def _check(self, scope: Scope, passage: AccessGrant) -> None:
        """Raise `Problem` for what is not let pass."""
        if self._policy.names is not None:
            _check_names(scope, self._policy.names)
        known = self._identified(scope)
        passage.caller = known or passage.caller
        wait = self._policy.rate.take(passage.caller.name, passage.arrived)
        if wait > 0:
            headers = {"Retry-After": str(ceil(wait))}
            raise Problem(HTTPStatus.TOO_MANY_REQUESTS, "too many requests; wait a little", headers=headers)
        if known is None and self._policy.tokens.known and scope["path"] not in OPEN:
            raise Problem(
                HTTPStatus.UNAUTHORIZED,
                "send a token that is accepted here: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": "Bearer"},
            )

    def _identified(self, scope: Scope) -> Client | None:
        token = bearer(scope["headers"]) if self._policy.tokens.known else None
        return self._policy.tokens.find(token) if token is not None else None

    def _tell(self, scope: Scope, passage: AccessGrant, status: int | None) -> None:
        path, seconds = scope["path"], time.monotonic() - passage.arrived
        route = self._mount(path) or str(getattr(scope.get("route"), "path_format", UNKNOWN_ROUTE))
        told = passage.note or status or HTTPStatus.INTERNAL_SERVER_ERROR
        self._metrics.requested(scope["method"], route, told, seconds)
        say = log.debug if path in QUIET else log.info
        say(
            "http",
            method=scope["method"] if scope["method"].isalpha() else "other",
            route=route,
            status=int(told),
            caller=passage.caller.name,
            elapsed_ms=round(seconds * 1000, 1),
        )


def refusal(path: str, problem: Problem) -> Response:
    """The answer to a request that is not served.

    A host shows what goes wrong with a hook to its user, who can do nothing about a busy service: it gets "nothing".
    What only a change of its configuration will mend it is told.
    """
    lasting = {HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
    lasting |= {HTTPStatus.FORBIDDEN, HTTPStatus.MISDIRECTED_REQUEST}
    if not path.startswith(HOOKS) or problem.status_code in lasting:
        return problem.response
    headers = {"Meeseeks-Reason": problem.reason or str(problem.status_code)}
    return Response(b"{}", HTTPStatus.OK, headers, "application/json")


def _check_names(scope: Scope, names: frozenset[str]) -> None:
    """Keep out pages in a browser that reach this machine under a name of their own, or from elsewhere."""
    hosts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]
    if len(hosts) != 1 or name_in(hosts[0]) not in names:
        raise Problem(HTTPStatus.MISDIRECTED_REQUEST, "this service answers to localhost only while it has no token")
    origins = [value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"]
    if any(name_in(origin) not in names for origin in origins):
        raise Problem(HTTPStatus.FORBIDDEN, "pages from elsewhere may not ask this service while it has no token")


def _address(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else "local"


class _Watched:
    """Passes an answer on and keeps its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)


class _Limited:
    """Passes a body on, piece by piece, and no more of it than is allowed."""

    def __init__(self, scope: Scope, receive: Receive, limit: int) -> None:
        self._receive = receive
        self._limit = limit
        self._seen = 0
        self._whole = False
        self._said = _length_said(scope)

    async def receive(self) -> Message:
        self._check(self._said)  # before a byte of it is read, or asked for by "100 Continue"
        if self._whole:
            return await self._receive()
        try:
            async with asyncio.timeout(PIECE_S):
                message = await self._receive()
        except TimeoutError as error:
            detail = f"no piece of the body came for {PIECE_S:g} seconds"
            raise Problem(HTTPStatus.REQUEST_TIMEOUT, detail, headers={"Connection": "close"}) from error
        if message["type"] == "http.request":
            self._seen += len(message.get("body", b""))
            self._whole = not message.get("more_body", False)
            self._check(self._seen)
        return message

    def _check(self, length: int) -> None:
        if length > self._limit:
            raise Problem(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"the body is longer than {self._limit} bytes",
                headers={"Connection": "close"},
            )


def _length_said(scope: Scope) -> int:
    """The length of its body that a request announces; 0 where it does not."""
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return max((int(value) for value in lengths if value.isdigit() and len(value) < 20), default=0)
