"""A model server for tests and benchmarks: OpenAI's chat completions and Ollama's /api/chat, with faults on demand.

In process: `async with Upstream() as upstream: ... upstream.url`. As a program:
`python -m tests.support.upstream --port 0 --keep "red binder" --delay-ms 300` prints `{"url": ...}` and serves until
it is ended; `POST /_control {"mode": "hang"}` changes its behaviour, `GET /_requests` lists what it was asked.
"""

import argparse
import asyncio
import json
import re
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self


class Mode(StrEnum):
    """What the server does with a chat request."""

    OK = "ok"
    HANG = "hang"
    DRIP = "drip"
    ERROR_500 = "error_500"
    ERROR_400 = "error_400"
    ERROR_401 = "error_401"
    RATE_LIMIT = "rate_limit"
    GARBAGE = "garbage"
    EMPTY_OBJECT = "empty_object"
    NO_CHOICES = "no_choices"
    NULL_MESSAGE = "null_message"
    DISCONNECT = "disconnect"


@dataclass(frozen=True)
class Answer:
    """What the model says: text, or tool calls as (name, arguments)."""

    text: str = ""
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    finish_reason: str = "stop"
    refusal: str | None = None


@dataclass(frozen=True)
class Recorded:
    """One request as it came over the wire; `at` is monotonic time in seconds."""

    path: str
    body: dict[str, Any]
    headers: dict[str, str]
    at: float


Responder = Callable[[dict[str, Any]], Answer]


def last_text(body: dict[str, Any]) -> str:
    """The text of the newest user or tool message."""
    return next((m["content"] for m in reversed(body["messages"]) if isinstance(m.get("content"), str)), "")


def candidate_lines(body: dict[str, Any]) -> dict[int, str]:
    """The numbered candidates of the real task (not of the examples), over all messages since it was set."""
    turns = [str(m.get("content") or "") for m in body["messages"] if m["role"] in ("user", "tool")]
    start = max((i for i, text in enumerate(turns) if text.startswith("Now: ")), default=0)
    found = re.findall(r"^\[(\d+)\] (.*)$", "\n".join(turns[start:]), re.MULTILINE)
    return {int(number): line for number, line in found}


def always(text: str) -> Responder:
    return lambda _body: Answer(text)


def keeping(needles: Iterable[str]) -> Responder:
    """Chooses every candidate that contains one of the needles: an oracle for whoever knows the right answer."""
    wanted = tuple(needles)

    def respond(body: dict[str, Any]) -> Answer:
        ids = [n for n, line in candidate_lines(body).items() if any(needle in line for needle in wanted)]
        return Answer(json.dumps({"relevant": ids, "sufficient": True}, separators=(",", ":")))

    return respond


def script(answers: Iterable[Answer | str]) -> Responder:
    """Gives the answers one after the other, then the last one for ever."""
    queue = [Answer(a) if isinstance(a, str) else a for a in answers]

    def respond(_body: dict[str, Any]) -> Answer:
        return queue.pop(0) if len(queue) > 1 else queue[0]

    return respond


@dataclass
class Upstream:
    """The server; every field may be changed while it runs.

    A streamed answer comes a few characters at a time, `pace` seconds apart, and stops for good after `stall_after`
    pieces.
    """

    respond: Responder = field(default_factory=lambda: always('{"relevant":[1],"sufficient":true}'))
    mode: Mode = Mode.OK
    delay: float = 0.0
    show_delay: float = 0.0
    pace: float = 0.0
    stall_after: int | None = None
    port: int = 0
    requests: list[Recorded] = field(default_factory=list)
    disconnects: list[float] = field(default_factory=list)
    connections: int = 0
    _server: asyncio.Server | None = None
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def chats(self) -> list[Recorded]:
        return [r for r in self.requests if "chat" in r.path]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        handlers = tuple(self._handlers)
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._handlers.add(task)
        self.connections += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            self.disconnects.append(time.monotonic())
        except asyncio.CancelledError:
            pass
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        request = await _read_request(reader)
        if request is None:
            return False
        if request.path.startswith("/_"):
            return await _send(writer, 200, self._administer(request))
        self.requests.append(request)
        gone = asyncio.create_task(reader.read(1))
        answering = asyncio.create_task(self._answer(request, writer))
        try:
            await asyncio.wait({gone, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                self.disconnects.append(time.monotonic())
                return False
            return answering.result()
        finally:
            for task in (gone, answering):
                task.cancel()
            await asyncio.gather(gone, answering, return_exceptions=True)

    def _administer(self, request: Recorded) -> bytes:
        if request.path == "/_control":
            self.mode = Mode(request.body.get("mode", self.mode))
            self.delay = float(request.body.get("delay", self.delay))
            self.show_delay = float(request.body.get("show_delay", self.show_delay))
            if "keep" in request.body:
                self.respond = keeping(request.body["keep"])
            if "answer" in request.body:
                self.respond = always(request.body["answer"])
        return json.dumps([{"path": r.path, "body": r.body} for r in self.requests]).encode()

    async def _answer(self, request: Recorded, writer: asyncio.StreamWriter) -> bool:
        if request.path.endswith("/api/show"):
            await asyncio.sleep(self.show_delay)
            return await _send(writer, 200, json.dumps({"capabilities": ["completion"], "model_info": {}}).encode())
        if request.path.endswith(("/api/tags", "/v1/models")):
            return await _send(writer, 200, b'{"models":[{"name":"fake"}],"data":[{"id":"fake"}]}')
        await asyncio.sleep(self.delay)
        return await self._misbehave(request, writer)

    async def _misbehave(self, request: Recorded, writer: asyncio.StreamWriter) -> bool:
        if self.mode is Mode.HANG:
            await asyncio.sleep(3600)
        if self.mode in _FAULTS:
            status, data = _FAULTS[self.mode]
            return await _send(writer, status, data)
        if request.body.get("stream"):
            return await self._stream(request, writer)
        body = _completion(request, self.respond(request.body))
        if self.mode is Mode.DISCONNECT:
            writer.write(_head(200, len(body)) + body[: len(body) // 2])
            await writer.drain()
            return False
        if self.mode is Mode.DRIP:
            return await _drip(writer, body)
        return await _send(writer, 200, body)

    async def _stream(self, request: Recorded, writer: asyncio.StreamWriter) -> bool:
        answer = self.respond(request.body)
        ollama = request.path.endswith("/api/chat")
        kind = b"application/x-ndjson" if ollama else b"text/event-stream"
        writer.write(b"HTTP/1.1 200 X\r\ncontent-type: " + kind + b"\r\ntransfer-encoding: chunked\r\n\r\n")
        for number, piece in enumerate((_ollama_pieces if ollama else _openai_pieces)(request.body, answer)):
            if number == self.stall_after:
                await asyncio.sleep(3600)
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(self.pace)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def _parts(text: str) -> list[str]:
    """The text two characters at a time."""
    return [text[start : start + 2] for start in range(0, len(text), 2)]


def _ollama_pieces(body: dict[str, Any], answer: Answer) -> Iterable[bytes]:
    whole = _ollama_chat(body, answer)
    for part in _parts(answer.text):
        piece = {"model": body["model"], "created_at": whole["created_at"], "done": False}
        yield json.dumps({**piece, "message": {"role": "assistant", "content": part}}).encode() + b"\n"
    yield json.dumps({**whole, "message": {"role": "assistant", "content": ""}}).encode() + b"\n"


def _openai_pieces(body: dict[str, Any], answer: Answer) -> Iterable[bytes]:
    frame = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}
    for part in _parts(answer.text):
        choice = {"index": 0, "delta": {"role": "assistant", "content": part}, "finish_reason": None}
        yield b"data: " + json.dumps({**frame, "choices": [choice]}).encode() + b"\n\n"
    last = {"index": 0, "delta": {}, "finish_reason": answer.finish_reason}
    yield b"data: " + json.dumps({**frame, "choices": [last]}).encode() + b"\n\n"
    usage = _openai_chat(body, answer)["usage"]
    yield b"data: " + json.dumps({**frame, "choices": [], "usage": usage}).encode() + b"\n\ndata: [DONE]\n\n"


_FAULTS = {
    Mode.ERROR_500: (500, b'{"error":{"message":"boom secret-body"}}'),
    Mode.ERROR_400: (400, b'{"error":{"message":"bad secret-body"}}'),
    Mode.ERROR_401: (401, b'{"error":{"message":"Incorrect API key secret-body"}}'),
    Mode.RATE_LIMIT: (429, b'{"error":{"message":"slow down secret-body"}}'),
    Mode.GARBAGE: (200, b"<html>secret-body"),
    Mode.EMPTY_OBJECT: (200, b"{}"),
    Mode.NO_CHOICES: (200, b'{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[],"message":[]}'),
    Mode.NULL_MESSAGE: (
        200,
        b'{"id":"x","model":"m","choices":[{"index":0,"message":null}],"message":null,"done":true}',
    ),
}


async def _read_request(reader: asyncio.StreamReader) -> Recorded | None:
    first = await reader.readline()
    if not first:
        return None
    path = first.decode().split(" ")[1]
    headers: dict[str, str] = {}
    while line := (await reader.readline()).decode().strip():
        name, value = line.split(":", 1)
        headers[name.lower()] = value.strip()
    raw = await reader.readexactly(int(headers.get("content-length", 0)))
    return Recorded(path, json.loads(raw) if raw else {}, headers, time.monotonic())


def _head(status: int, length: int) -> bytes:
    return b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % (status, length)


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes) -> bool:
    writer.write(_head(status, len(body)) + body)
    await writer.drain()
    return True


async def _drip(writer: asyncio.StreamWriter, body: bytes) -> bool:
    writer.write(_head(200, len(body)))
    for position in range(len(body)):
        writer.write(body[position : position + 1])
        await writer.drain()
        await asyncio.sleep(0.1)
    return True


def _completion(request: Recorded, answer: Answer) -> bytes:
    shape = _ollama_chat if request.path.endswith("/api/chat") else _openai_chat
    return json.dumps(shape(request.body, answer)).encode()


def _ollama_chat(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool_calls:
        message["tool_calls"] = [{"function": {"name": n, "arguments": a}} for n, a in answer.tool_calls]
    return {
        "model": body["model"],
        "created_at": "2026-01-01T00:00:00Z",
        "message": message,
        "done": True,
        "done_reason": answer.finish_reason,
        "prompt_eval_count": 10,
        "eval_count": 3,
    }


def _openai_chat(body: dict[str, Any], answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.refusal:
        message["refusal"] = answer.refusal
    if answer.tool_calls:
        message["tool_calls"] = [
            {"id": f"call_{i}", "type": "function", "function": {"name": n, "arguments": json.dumps(a)}}
            for i, (n, a) in enumerate(answer.tool_calls)
        ]
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish_reason}],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 3,
            "total_tokens": 13,
            "prompt_tokens_details": {"cached_tokens": 4},
        },
    }


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--mode", type=Mode, choices=list(Mode), default=Mode.OK)
    parser.add_argument("--delay-ms", type=float, default=0.0)
    parser.add_argument("--keep", action="append", default=[], help="choose the candidates that contain this text")
    parser.add_argument("--answer", help="always say this")
    return parser.parse_args(argv)


async def serve(argv: list[str] | None = None) -> None:
    """Serves until it is cancelled or the process ends."""
    options = _arguments(argv)
    respond = always(options.answer) if options.answer is not None else keeping(options.keep)
    server = Upstream(respond=respond, mode=options.mode, delay=options.delay_ms / 1000, port=options.port)
    async with server:
        sys.stdout.write(json.dumps({"url": server.url}) + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(serve())
    except KeyboardInterrupt:
        sys.exit(0)
