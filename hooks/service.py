"""One question to the HTTP service and its answer, within a time, or a `ClientError` that says why there is none."""

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

from .breaker import CircuitBreaker
from .contract import Reason
from .faults import AccessDenied, BadReply, BadRequest, ClientError, DeadlinePassed, ServiceUnavailable

DEFAULT_URL = "http://127.0.0.1:8787"

MAX_ANSWER_BYTES = 8 << 20

TELLING = 0.25
"""Seconds that a question must have been given for its running out of time to count against the service."""

COSTLY = 0.05
"""Seconds that a failure must have cost for the whole pause: a refused connection costs nothing."""

SHORT_PAUSE = 0.5
"""Seconds for which a service is left alone that failed at once: it is probably being restarted."""

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
    """Asks the service at `url`, from any event loop; every loop has its own connections.

    Connections are kept and used again. Nothing is ever waited for beyond a question's budget: not a name, not a
    connection, not a slow or endless answer. Once `breaker` has opened, questions fail at once. `clock` gives monotonic
    seconds. Raises `ImportError` without httpx, and `ValueError` for a URL that is not `http://` or `https://`.
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
            raise ValueError("the address of the service must begin with http:// or https:// and name a host")
        self._httpx = _httpx()
        self._url = url.rstrip("/")
        self._secure = parts.scheme == "https"
        self._near = _is_loopback(parts.hostname)
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
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, budget: float, again: bool = True
    ) -> dict[str, Any]:
        """The JSON object that the service answers with, within `budget` seconds. Raises `ClientError`.

        A connection that turns out to be closed is replaced once, unless `again` says that the service must not be
        told the same thing twice.
        """
        started = self._clock()
        if not self._breaker.allow(started):
            raise ServiceUnavailable(Reason.SERVICE_UNAVAILABLE, "it failed several times in a row and is left alone")
        content = b"" if body is None else to_json(body, exclude_none=True)
        headers = self._headers | {"X-Deadline-Ms": str(max(1, int(budget * 1000)))}
        try:
            async with asyncio.timeout(budget):
                status, answer = await self._exchange(method, path, content, headers, again)
        except TimeoutError:
            if budget >= TELLING:
                self._breaker.record_failure(self._clock())
            raise DeadlinePassed(Reason.DEADLINE) from None
        except (self._httpx.TransportError, OSError) as error:
            now = self._clock()
            self._breaker.record_failure(now, None if now - started >= COSTLY else SHORT_PAUSE)
            raise ServiceUnavailable(Reason.SERVICE_UNAVAILABLE, type(error).__name__) from error
        self._breaker.record_success()
        return _read(status, answer)

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.aclose()

    async def _exchange(
        self, method: str, path: str, content: bytes, headers: Mapping[str, str], again: bool
    ) -> tuple[int, bytes]:
        broken = (self._httpx.RemoteProtocolError, self._httpx.ReadError, self._httpx.WriteError)
        try:
            return await self._once(method, path, content, headers)
        except broken:
            if not again:
                raise
            return await self._once(method, path, content, headers)

    async def _once(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        answer = bytearray()
        async with self._client().stream(method, self._url + path, content=content, headers=headers) as response:
            async for chunk in response.aiter_raw():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise BadReply(Reason.BAD_REPLY, "the answer is too long")
        return response.status_code, bytes(answer)

    def _client(self) -> Any:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            # certificates take long to load, and a proxy must not stand between two processes of one machine
            client = self._clients[loop] = self._httpx.AsyncClient(
                verify=self._secure,
                trust_env=not self._near,
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
    """The object of a good answer. Raises the error that any other answer stands for."""
    try:
        body = json.loads(answer) if answer.strip() else {}
    except (ValueError, RecursionError):
        body = None
    if 200 <= status < 300 and isinstance(body, dict):
        return body
    raise _fault(status, body if isinstance(body, dict) else {})


def _fault(status: int, problem: Mapping[str, Any]) -> ClientError:
    """What a refusal means; a service that follows the contract names the reason in its problem document."""
    kind, reason = _STATUS_FAULTS.get(status, (BadReply, Reason.BAD_REPLY))
    if 400 <= status < 500 and status not in _STATUS_FAULTS:
        kind, reason = BadRequest, Reason.BAD_REQUEST
    elif status >= 500 and status not in _STATUS_FAULTS:
        reason = Reason.INTERNAL
    named = problem.get("reason")
    if isinstance(named, str) and Reason(named) is not Reason.UNKNOWN:
        reason = Reason(named)
    detail = problem.get("detail") or problem.get("title")
    told = f": {detail[:_DETAIL_CHARS]}" if isinstance(detail, str) else ""
    return kind(reason, f"status {status}{told}")
