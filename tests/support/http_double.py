"""An HTTP server that answers as it is told, byte for byte, for faults that no healthy service brings about."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support.ports import free_port


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class HttpDouble:
    """`mode`: ok, hang (no answer), close (hang up at once), raw (`body` alone), endless, trickle (bit by bit).

    `once` is a mode for the next request alone, `queue` bodies for the next ones, `respond` makes one for each.
    `connections` counts those that were opened.
    """

    port: int
    mode: str = "ok"
    once: str | None = None
    status: int = 200
    body: bytes = b"{}"
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0
    queue: list[Any] = field(default_factory=list)
    respond: Callable[[Seen], Any] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, value: Any, status: int = 200) -> None:
        self.mode, self.status = "ok", status
        self.body = value if isinstance(value, bytes) else json.dumps(value).encode()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._exchange(reader, writer):
                pass
        writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        self.seen.append(Seen(method, path, headers, json.loads(body) if body else None))
        mode, self.once = self.once or self.mode, None
        if mode == "close":
            return False
        await getattr(self, f"_{mode}")(writer)
        return mode == "ok"

    async def _ok(self, writer: asyncio.StreamWriter) -> None:
        if self.queue:
            self.answer(self.queue.pop(0))
        if self.respond is not None:
            self.answer(self.respond(self.seen[-1]), self.status)
        head = f"HTTP/1.1 {self.status} x\r\nContent-Type: application/json\r\nContent-Length: {len(self.body)}\r\n\r\n"
        writer.write(head.encode() + self.body)
        await writer.drain()

    async def _hang(self, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)

    async def _raw(self, writer: asyncio.StreamWriter) -> None:
        writer.write(self.body)
        await writer.drain()

    async def _endless(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b" " * 65536)
            await writer.drain()

    async def _trickle(self, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            writer.write(b" ")
            await writer.drain()
            await asyncio.sleep(0.02)


@contextmanager
def running_http_double(port: int | None = None) -> Iterator[HttpDouble]:
    """A server in a thread of its own, ready."""
    double = HttpDouble(port or free_port())
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(double.serve, "127.0.0.1", double.port))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield double
    finally:
        asyncio.run_coroutine_threadsafe(_stopped(server), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _stopped(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0.01)
