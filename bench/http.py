"""Latency of HTTP: the same messages through the hook in process and over HTTP, to one service."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from urllib.parse import urlsplit

from rich.progress import Progress

from hooks import MeeseeksClient, Outcome, PreExecutionHook

from .corpus import TENANT, messages
from .measure import Check, RangeChart, Result, Series, interleaved
from .options import Options
from .processes import BenchError, Service, running_service, scratch
from .progress import bar
from .stores import make_store

NAME = "http"
MEMORIES, QUICK_MEMORIES = 10_000, 200
ROUNDS, QUICK_ROUNDS = 400, 15
WARM_UP = 10

HOOK = "PreExecutionHook, through Redis"
INJECT = "POST /v1/inject"
HOST = "POST /v1/hooks/claude-code"
CLIENT = "MeeseeksClient, over HTTP"

MAX_ADDED_MS = 5.0
"""Maximum milliseconds that HTTP may add to the median."""

ANSWERED = (Outcome.INJECTED, Outcome.NONE_RELEVANT, Outcome.ALL_DUPLICATE)

Ask = Callable[[str, str], Awaitable[bool]]
"""Requests memory for a session and message. Returns whether the service answered, with or without a block."""


class Connection:
    """A keep-alive connection, to measure the service and not a client library."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the JSON object of a successful response, else `None`."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        reply_head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(reply_head.partition("content-length:")[2].partition("\r\n")[0])
        answer: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        return answer if " 200 " in reply_head.partition("\r\n")[0] and "meeseeks-reason" not in reply_head else None

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@dataclass(slots=True)
class Tally:
    """Latencies of answered calls in milliseconds, and counts of answered and unanswered calls."""

    spent: list[float] = field(default_factory=list)
    outcomes: "Counter[bool]" = field(default_factory=Counter)


def run(options: Options, progress: Progress) -> Result:
    """Call one service in every way in turn."""
    with scratch() as data_dir:
        memories = QUICK_MEMORIES if options.quick else MEMORIES
        make_store(data_dir, memories, options.out / "cache", progress)
        with running_service(data_dir, "--model", "none", "--http", "--http-port", "0") as service:
            rounds = QUICK_ROUNDS if options.quick else ROUNDS
            return _result(asyncio.run(_measure(service, rounds, progress)), memories)


async def _measure(service: Service, rounds: int, progress: Progress) -> dict[str, Tally]:
    texts = enumerate(messages())
    async with _callers(service) as callers:
        tallies = {name: Tally() for name in callers}
        with bar(progress, "http: one caller", (rounds + WARM_UP) * len(callers)) as advance:
            for turn, name in enumerate(interleaved(tuple(callers), rounds + WARM_UP)):
                number, message = next(texts)
                start = time.perf_counter()
                answered = await callers[name](f"session {number}", message)
                spent = (time.perf_counter() - start) * 1000
                if turn >= WARM_UP * len(callers):
                    tallies[name].outcomes[answered] += 1
                    tallies[name].spent += [spent] if answered else []
                advance()
    return tallies


@asynccontextmanager
async def _callers(service: Service) -> AsyncIterator[dict[str, Ask]]:
    if service.http is None:
        raise BenchError("the service does not serve HTTP")
    async with AsyncExitStack() as stack:
        hook = await stack.enter_async_context(PreExecutionHook(service.url))
        client = await stack.enter_async_context(MeeseeksClient(service.http))
        connection = Connection(service.http)
        await connection.open()
        stack.push_async_callback(connection.close)
        yield {HOOK: _hook(hook), INJECT: _inject(connection), HOST: _host(connection), CLIENT: _client(client)}


def _request(session: str, message: str) -> dict[str, Any]:
    return {"session_id": session, "message": message, "scope": {"tenant": TENANT}}


def _hook(hook: PreExecutionHook) -> Ask:
    async def ask(session: str, message: str) -> bool:
        return (await hook(_request(session, message))).outcome in ANSWERED

    return ask


def _client(client: MeeseeksClient) -> Ask:
    async def ask(session: str, message: str) -> bool:
        return (await client.inject(_request(session, message))).outcome in ANSWERED

    return ask


def _inject(connection: Connection) -> Ask:
    async def ask(session: str, message: str) -> bool:
        answer = await connection.post("/v1/inject", _request(session, message))
        return answer is not None and answer["outcome"] in ANSWERED

    return ask


def _host(connection: Connection) -> Ask:
    async def ask(session: str, message: str) -> bool:
        event = {"hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": message}
        return await connection.post(f"/v1/hooks/claude-code?tenant={TENANT}", event) is not None

    return ask


def _result(tallies: Mapping[str, Tally], memories: int) -> Result:
    for name, tally in tallies.items():
        if not tally.spent:
            raise BenchError(f"{name} got no answers")
    series = {name: Series.of(name, tally.spent) for name, tally in tallies.items()}
    more = {name: round(median(tallies[name].spent) - median(tallies[HOOK].spent), 3) for name in (INJECT, HOST)}
    return Result(
        name=NAME,
        title="Latency of HTTP",
        method=(
            f"One service without a model, a store of {memories:,} memories, one caller, one session per message, in "
            "shuffled order: the hook in process, through Redis; the same request over HTTP; a host's native event "
            "over HTTP; and the Python client over HTTP. Connections are kept alive."
        ),
        checks=tuple(
            Check(name=f"`{name}`, p50 above the hook in process", measured=spent, limit=MAX_ADDED_MS)
            for name, spent in more.items()
        ),
        series=tuple(series.values()),
        notes=(_notes(tallies),),
        ranges=(RangeChart(name="latency", title="In process and over HTTP", series=tuple(series)),),
    )


def _notes(tallies: Mapping[str, Tally]) -> str:
    shares = "; ".join(f"{name}: {tally.outcomes[True]} of {tally.outcomes.total()}" for name, tally in tallies.items())
    return f"Answered calls: {shares}. HTTP requests do not go through the queue."
