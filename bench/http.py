"""What HTTP adds: the same messages through the hook in process and over HTTP, to one service."""

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

MOST_MORE = 5.0
"""Milliseconds that HTTP may add to the median."""

TELLING = (Outcome.INJECTED, Outcome.NONE_RELEVANT, Outcome.ALL_DUPLICATE)

Ask = Callable[[str, str], Awaitable[bool]]
"""Asks for the memory of a message in a session; whether it was answered, with a block or with nothing."""


class Connection:
    """One connection that is kept, as hosts keep theirs: what is measured is the service, not a client's library."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = str(parts.hostname), int(parts.port or 80)

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)

    async def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """The JSON object that is answered; `None` after trouble."""
        content = json.dumps(body).encode()
        head = f"POST {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content)
        told = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        length = int(told.partition("content-length:")[2].partition("\r\n")[0])
        answer: dict[str, Any] = json.loads(await self._reader.readexactly(length))
        return answer if " 200 " in told.partition("\r\n")[0] and "meeseeks-reason" not in told else None

    async def close(self) -> None:
        self._writer.close()
        await self._writer.wait_closed()


@dataclass(slots=True)
class Tally:
    """Milliseconds of the calls that were answered, and how many were not."""

    spent: list[float] = field(default_factory=list)
    outcomes: "Counter[bool]" = field(default_factory=Counter)


def run(options: Options, progress: Progress) -> Result:
    """One service, asked in every way in turn."""
    with scratch() as data_dir:
        memories = QUICK_MEMORIES if options.quick else MEMORIES
        make_store(data_dir, memories, options.out / "cache", progress)
        with running_service(data_dir, "--model", "none", "--http", "--http-port", "0") as service:
            rounds = QUICK_ROUNDS if options.quick else ROUNDS
            return _result(asyncio.run(_measure(service, rounds, progress)), memories)


async def _measure(service: Service, rounds: int, progress: Progress) -> dict[str, Tally]:
    texts = enumerate(messages())
    async with _ways(service) as ways:
        tallies = {name: Tally() for name in ways}
        with bar(progress, "http: one caller", (rounds + WARM_UP) * len(ways)) as advance:
            for turn, name in enumerate(interleaved(tuple(ways), rounds + WARM_UP)):
                number, message = next(texts)
                begun = time.perf_counter()
                answered = await ways[name](f"session {number}", message)
                spent = (time.perf_counter() - begun) * 1000
                if turn >= WARM_UP * len(ways):
                    tallies[name].outcomes[answered] += 1
                    tallies[name].spent += [spent] if answered else []
                advance()
    return tallies


@asynccontextmanager
async def _ways(service: Service) -> AsyncIterator[dict[str, Ask]]:
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
        return (await hook(_request(session, message))).outcome in TELLING

    return ask


def _client(client: MeeseeksClient) -> Ask:
    async def ask(session: str, message: str) -> bool:
        return (await client.inject(_request(session, message))).outcome in TELLING

    return ask


def _inject(connection: Connection) -> Ask:
    async def ask(session: str, message: str) -> bool:
        answer = await connection.post("/v1/inject", _request(session, message))
        return answer is not None and answer["outcome"] in TELLING

    return ask


def _host(connection: Connection) -> Ask:
    async def ask(session: str, message: str) -> bool:
        event = {"hook_event_name": "UserPromptSubmit", "session_id": session, "prompt": message}
        return await connection.post(f"/v1/hooks/claude-code?tenant={TENANT}", event) is not None

    return ask


def _result(tallies: Mapping[str, Tally], memories: int) -> Result:
    for name, tally in tallies.items():
        if not tally.spent:
            raise BenchError(f"{name} was never answered")
    series = {name: Series.of(name, tally.spent) for name, tally in tallies.items()}
    more = {name: round(median(tallies[name].spent) - median(tallies[HOOK].spent), 3) for name in (INJECT, HOST)}
    return Result(
        name=NAME,
        title="What HTTP adds",
        method=(
            f"One service without a model, a store of {memories:,} memories, one caller, a session per message, in "
            "shuffled order: the hook in process, which asks through Redis; the same request over HTTP; a host's "
            "native event over HTTP; and the Python client over HTTP. Connections are kept."
        ),
        checks=tuple(
            Check(name=f"`{name}`, p50 beyond that of the hook in process", measured=spent, limit=MOST_MORE)
            for name, spent in more.items()
        ),
        series=tuple(series.values()),
        notes=(_notes(tallies),),
        ranges=(RangeChart(name="latency", title="In process and over HTTP", series=tuple(series)),),
    )


def _notes(tallies: Mapping[str, Tally]) -> str:
    shares = "; ".join(f"{name}: {tally.outcomes[True]} of {tally.outcomes.total()}" for name, tally in tallies.items())
    return f"Calls that were answered: {shares}. Over HTTP there is no queue between the request and the answer."
