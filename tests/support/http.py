"""The HTTP application over operations that a test writes, and requests whose every step a test decides."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.types import ASGIApp, Message

from worker.api.access import Policy
from worker.api.app import create_app
from worker.api.execution import OperationExecutor
from worker.api.tokens import Client, Token, Tokens, read_tokens
from worker.domain.deadline import Deadline
from worker.domain.operation import Operation, OperationAnswer
from worker.operations.client import LocalOperationClient, QueueState
from worker.operations.metrics import Metrics
from worker.settings.service import ServiceSettings

TOKEN = "a-token-for-every-tenant"
ACME_TOKEN = "a-token-for-acme-alone"

Body = Callable[[dict[str, Any]], Any]
"""What an operation answers with, or the error that it raises, for a payload."""


class Recorder:
    """Operations by name, each with what it answers, and what they were asked for and told to commit."""

    def __init__(self, answers: Mapping[str, Any], *, commit: tuple[str, str] | None = None) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.left: list[float] = []
        self.committed: list[tuple[str, str]] = []
        self._answers = answers
        self._commit = commit

    @property
    def table(self) -> dict[str, Operation]:
        return {name: self._operation(name, answer) for name, answer in self._answers.items()}

    def _operation(self, name: str, answer: Any) -> Operation:
        async def run(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
            self.asked.append((name, payload))
            self.left.append(deadline.remaining())
            given = answer(payload) if callable(answer) else answer
            if asyncio.iscoroutine(given):
                given = await given
            if isinstance(given, Exception):
                raise given
            return OperationAnswer(given, self._commit)

        return run

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
    **policy: Any,
) -> FastAPI:
    """The application; `policy` are further fields of `Policy`."""

    async def look() -> QueueState | None:
        return queue

    backend = LocalOperationClient(recorder.table, recorder.commit, at_once=at_once)
    door = OperationExecutor(backend, metrics or Metrics(), look)
    return create_app(door, Policy(tokens=tokens or Tokens(), **policy), mounts=mounts)


def both_tokens() -> Tokens:
    """One for every tenant, and one for acme alone."""
    first = read_tokens(ServiceSettings(http_token=TOKEN))
    second = read_tokens(ServiceSettings(http_token=ACME_TOKEN)).known[0]
    return Tokens((*first.known, Token(second.digest, Client("acme's", "acme"))))


@asynccontextmanager
async def calling(app: ASGIApp, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application that never sees its exceptions, as none does over a network."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=headers) as client:
        yield client


class Conversation:
    """One request to an ASGI application, step by step; `leave` is the caller's going away."""

    def __init__(self, path: str, body: Any, *, method: str = "POST", headers: Mapping[str, str] | None = None) -> None:
        raw = json.dumps(body).encode()
        said = {"host": "localhost", "content-type": "application/json", **(headers or {})}
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
            "headers": [(name.encode(), value.encode()) for name, value in said.items()],
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
