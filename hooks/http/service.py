"""Send a request to the HTTP API within a time budget, or raise `ClientError`."""

import asyncio
import ipaddress
import json
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from pydantic_core import to_json

from ..breaker import CircuitBreaker
from ..contract import Reason
from ..faults import AccessDenied, BadReply, BadRequest, ClientError, DeadlinePassed, ServiceUnavailable
from ..tracing import current_traceparent

DEFAULT_URL = "http://127.0.0.1:8787"

MAX_ANSWER_BYTES = 8 << 20

MIN_COUNTED_BUDGET = 0.25
"""Minimum budget in seconds for a timeout to count as a failure of the service."""

COSTLY = 0.05
"""Seconds that a failure must take for the full pause. A refused connection fails at once."""

SHORT_PAUSE = 0.5
"""Pause in seconds after a service that failed at once; it is probably restarting."""

KEPT_CONNECTIONS = 32

NO_HTTPX = "the HTTP client needs httpx; install it with `pip install 'meeseeks-hooks[http]'`"

_STATUS_FAULTS: Mapping[int, tuple[type[ClientError], Reason]] = {
    401: (AccessDenied, Reason.ACCESS_DENIED),
    403: (AccessDenied, Reason.ACCESS_DENIED),
    429: (ServiceUnavailable, Reason.BUSY),
    503: (ServiceUnavailable, Reason.SERVICE_UNAVAILABLE),
    504: (DeadlinePassed, Reason.DEADLINE),
}

_DETAIL_CHARS = 300


class HttpService:
    """Call the service at `url` from any event loop. Every loop has its own pool of connections.

    The budget of a call covers everything, from name lookup to a slow or endless response. While `breaker` is open,
    calls fail at once. Raise `ImportError` without httpx, and `ValueError` if `url` is not `http://` or `https://`.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        *,
        breaker: CircuitBreaker,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("the service URL must start with http:// or https:// and contain a host")
        self._httpx = _httpx()
        self._url = url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._local = _is_loopback(parts.hostname)
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
        }
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._breaker = breaker
        self._clock = clock
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    async def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, budget: float, retry: bool = True
    ) -> dict[str, Any]:
        """Return the JSON object of the response within `budget` seconds. Raise `ClientError` on failure.

        Retry once on a closed connection, unless `retry` is false because the request must not be sent twice.
        """
        started = self._clock()
        if not self._breaker.allow(started):
            raise ServiceUnavailable(Reason.SERVICE_UNAVAILABLE, "it failed several times in a row; calls are paused")
        content = b"" if body is None else to_json(body, exclude_none=True)
        headers = self._headers | {"X-Deadline-Ms": str(max(1, int(budget * 1000)))}
        if (traceparent := current_traceparent()) is not None:
            headers["traceparent"] = traceparent
        try:
            async with asyncio.timeout(budget):
                status, answer = await self._exchange(method, path, content, headers, retry)
        except TimeoutError:
            if budget >= MIN_COUNTED_BUDGET:
                self._breaker.record_failure(self._clock())
            raise DeadlinePassed(Reason.DEADLINE) from None
        except (self._httpx.TransportError, OSError) as error:
            now = self._clock()
            self._breaker.record_failure(now, None if now - started >= COSTLY else SHORT_PAUSE)
            raise ServiceUnavailable(Reason.SERVICE_UNAVAILABLE, type(error).__name__) from error
        self._breaker.record_success()
        return _read(status, answer)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _exchange(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str], retry: bool
    ) -> tuple[int, bytes]:
        broken = (self._httpx.RemoteProtocolError, self._httpx.ReadError, self._httpx.WriteError)
        try:
            return await self._once(method, path, content, headers)
        except broken:
            if not retry:
                raise
            return await self._once(method, path, content, headers)

    async def _once(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        answer = bytearray()
        async with self._client().stream(method, self._url + path, content=content, headers=headers) as response:
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise BadReply(Reason.BAD_REPLY, "the response is too long")
        return response.status_code, bytes(answer)

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # loading certificates is slow, and local calls must not go through a proxy
            client = self._clients[loop] = self._httpx.AsyncClient(
                verify=self._secure,
                trust_env=not self._local,
                timeout=None,
                limits=self._httpx.Limits(max_connections=None, max_keepalive_connections=KEPT_CONNECTIONS),
            )
        return client


def _httpx() -> Any:
    try:
        return import_module("httpx")
    except ImportError as error:
        raise ImportError(NO_HTTPX) from error


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(status: int, answer: bytes) -> dict[str, Any]:
    """Parse a successful response. Raise `ClientError` for any other."""
    try:
        body = json.loads(answer) if answer.strip() else {}
    except (ValueError, RecursionError):
        body = None
    if 200 <= status < 300 and isinstance(body, dict):
        return body
    raise _fault(status, body if isinstance(body, dict) else {})


def _fault(status: int, problem: Mapping[str, Any]) -> ClientError:
    """Map an error response to an exception, with the reason of its problem document if it has one."""
    kind, reason = _STATUS_FAULTS.get(status, (BadReply, Reason.BAD_REPLY))
    if 400 <= status < 500 and status not in _STATUS_FAULTS:
        kind, reason = BadRequest, Reason.BAD_REQUEST
    elif status >= 500 and status not in _STATUS_FAULTS:
        reason = Reason.INTERNAL
    given = problem.get("reason")
    if isinstance(given, str) and Reason(given) is not Reason.UNKNOWN:
        reason = Reason(given)
    detail = problem.get("detail") or problem.get("title")
    suffix = f": {detail[:_DETAIL_CHARS]}" if isinstance(detail, str) else ""
    return kind(reason, f"status {status}{suffix}")
