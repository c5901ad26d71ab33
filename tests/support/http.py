"""The HTTP application over fake operations, and requests that tests control step by step."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from copy import copy
from functools import cache
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.types import ASGIApp, Message

from worker.api.access import Policy
from worker.api.app import create_app
from worker.api.execution import OperationExecutor
from worker.api.tokens import Client, Token, Tokens, read_tokens
from worker.domain.deadline import Deadline
from worker.domain.operation import (
    AnyHandler,
    AnyOperation,
    Handlers,
    JsonObject,
    Operation,
    OperationAnswer,
    Undelivered,
)
from worker.injection.capacity import Capacity
from worker.operations.client import ACK_S, BUDGET_S, OperationClient, QueueState
from worker.operations.local_client import LocalOperationClient
from worker.operations.metrics import Metrics
from worker.ports.tracing import NO_TRACER, Tracer
from worker.settings.service import ServiceSettings

TOKEN = "a-token-for-every-tenant"
ACME_TOKEN = "a-token-for-acme-alone"

Body = Callable[[dict[str, Any]], Any]
"""Returns the answer or the error to raise for a payload."""


class Recorder:
    """Fake operations with fixed answers; records requests and commits."""

    def __init__(self, answers: Mapping[str, Any], *, commit: tuple[str, str] | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.left: list[float] = []
        self.committed: list[tuple[str, str]] = []
        self._answers = answers
        self._commit = commit

    @property
    def handlers(self) -> Handlers:
        return {name: self._handler(name, answer) for name, answer in self._answers.items()}

    def _handler(self, name: str, answer: Any) -> AnyHandler:
        async def run(request: JsonObject, deadline: Deadline) -> Any:
            self.asked.append((name, request.root))
            self.left.append(deadline.remaining())
            given = answer(request.root) if callable(answer) else answer
            if asyncio.iscoroutine(given):
                given = await given
            if isinstance(given, Exception):
                raise given
            return Undelivered(JsonObject(given), self._commit) if self._commit else JsonObject(given)

        return Operation(name, JsonObject, JsonObject).bind(run)

    async def commit(self, ledger: str, turn: str) -> bool:
        self.committed.append((ledger, turn))
        return True


def make_app(
    recorder: Recorder,
    *,
    tokens: Tokens | None = None,
    mounts: Mapping[str, Starlette] | None = None,
    metrics: Metrics | None = None,
    queue: QueueState | None = None,
    at_once: int = 20,
    tracer: Tracer = NO_TRACER,
    **policy: Any,
) -> FastAPI:
    """Create the application; `policy` are further fields of `Policy`.

    Without mounts, metrics and queue, its endpoints are shared, and ask the recorder that was given last.
    """
    backend = LocalOperationClient(recorder.handlers, recorder.commit, capacity=Capacity(at_once))
    limits = Policy(tokens=tokens or Tokens(), **policy)
    if mounts is None and metrics is None and queue is None:
        return usual_app(backend, policy=limits, tracer=tracer)

    async def look() -> QueueState | None:
        return queue

    executor = OperationExecutor(backend, metrics or Metrics(), look)
    return create_app(executor, limits, mounts=mounts, tracer=tracer)


def usual_app(backend: OperationClient, **access: Any) -> FastAPI:
    """Return the application with the endpoints that tests share, behind an access control of its own."""
    shared, asked = _shared_app()
    asked.client = backend
    app = copy(shared)
    (control,) = shared.user_middleware
    app.user_middleware = [Middleware(control.cls, **{**control.kwargs, **access})]
    app.middleware_stack = None
    return app


class _Changeable(OperationClient):
    """Asks the client that it was given last."""

    where = "this process"
    client: OperationClient

    async def ask(
        self, operation: AnyOperation, payload: dict[str, Any], *, budget: float = BUDGET_S, ack: float = ACK_S
    ) -> OperationAnswer:
        return await self.client.ask(operation, payload, budget=budget, ack=ack)

    async def commit(self, delivered: tuple[str, str]) -> bool:
        return await self.client.commit(delivered)


@cache
def _shared_app() -> tuple[FastAPI, _Changeable]:
    """Create the endpoints once: that takes longer than most tests of them."""

    async def look() -> None:
        return None

    asked = _Changeable()
    return create_app(OperationExecutor(asked, Metrics(), look), Policy()), asked


def both_tokens() -> Tokens:
    """Return one token for all tenants and one bound to acme."""
    first = read_tokens(ServiceSettings(http_token=TOKEN))
    second = read_tokens(ServiceSettings(http_token=ACME_TOKEN)).known[0]
    return Tokens((*first.known, Token(second.digest, Client("acme's", "acme"))))


@asynccontextmanager
async def calling(app: ASGIApp, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Open a client that, as over a network, does not see the application's exceptions."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        yield client


class Conversation:
    """One request to an ASGI application; `leave` closes the connection."""

    def __init__(self, path: str, body: Any, *, method: str = "POST", headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        sent = {"host": "localhost", "content-type": "application/json", **(headers or {})}
        self.scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
            "client": ("127.0.0.1", 5000),
            "server": ("localhost", 80),
        }
        self.sent: list[Message] = []
        self.incoming: list[Message] = [{"type": "http.request", "body": raw, "more_body": False}]
        self._gone = asyncio.Event()
        self.before_body: Callable[[], None] = lambda: None

    def leave(self) -> None:
        self._gone.set()

    async def receive(self) -> Message:
        if self.incoming:
            return self.incoming.pop(0)
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.body":
            self.before_body()
        self.sent.append(message)

    @property
    def status(self) -> int | None:
        return next((message["status"] for message in self.sent if message["type"] == "http.response.start"), None)
