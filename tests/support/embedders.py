"""Embedders for tests: one that hashes words, and an HTTP server that embeds in the shapes of OpenAI and Ollama."""

import asyncio
import base64
import hashlib
import json
import math
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Self

from worker.domain.memory import EmbedderProfile, Vector

DIMENSION = 64


def hashed_vector(text: str, dimension: int = DIMENSION) -> Vector:
    """A unit vector that texts with the same words share; the same in every process."""
    values = [0.0] * dimension
    for word in re.findall(r"\w+", text.lower()) or ["\0empty"]:
        digest = hashlib.blake2b(word.encode("utf-8", "replace"), digest_size=9).digest()
        for place in range(4):
            values[digest[place] % dimension] += 1.0 if digest[4 + place] & 1 else -1.0
        values[digest[8] % dimension] += 0.5
    if not any(values):
        values[0] = 1.0
    length = math.sqrt(sum(value * value for value in values))
    return tuple(value / length for value in values)


@dataclass
class HashingEmbedder:
    """Embeds by hashed words, so that shared words mean a high cosine; counts its calls and fails when told to."""

    dimension: int = DIMENSION
    revision: str = "1"
    fault: Exception | None = None
    delay: float = 0.0
    queries: list[str] = field(default_factory=list)
    passages: list[str] = field(default_factory=list)
    closed: bool = False

    @property
    def profile(self) -> EmbedderProfile:
        return EmbedderProfile(
            "hashing", self.revision, self.dimension, candidate_threshold=0.25, confident=0.30, duplicate=0.92
        )

    async def embed_query(self, text: str) -> Vector:
        self.queries.append(text)
        await self._behave()
        return hashed_vector(text, self.dimension)

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        self.passages.extend(texts)
        await self._behave()
        return [hashed_vector(text, self.dimension) for text in texts]

    async def warm(self) -> None:
        await self._behave()

    async def aclose(self) -> None:
        self.closed = True

    async def _behave(self) -> None:
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.fault is not None:
            raise self.fault


class Fault(StrEnum):
    """What the server does instead of answering."""

    NONE = "none"
    HANG = "hang"
    DISCONNECT = "disconnect"
    ERROR_500 = "500"
    RATE_LIMIT = "429"
    UNAUTHORIZED = "401"
    GARBAGE = "garbage"
    EMPTY_OBJECT = "empty_object"
    TOO_FEW = "too_few"
    SHORT_VECTOR = "short_vector"
    ZERO_VECTOR = "zero_vector"
    NAN_VECTOR = "nan_vector"


SECRET_BODY = "the-body-of-the-answer"
_STATUS = {Fault.ERROR_500: 500, Fault.RATE_LIMIT: 429, Fault.UNAUTHORIZED: 401}


@dataclass
class EmbeddingServer:
    """`/v1/embeddings` and `/api/embed` on the loopback interface; every field may be changed while it runs."""

    dimension: int = DIMENSION
    fault: Fault = Fault.NONE
    scale: float = 3.0
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    port: int = 0
    _server: asyncio.Server | None = None
    _handlers: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def texts(self) -> list[str]:
        """Every text that the server was asked to embed."""
        return [text for request in self.requests for text in _inputs(request)]

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
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
        try:
            while await self._serve_one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._handlers.discard(task)
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"(?im)^content-length: *(\d+)", head)
        body = json.loads(await reader.readexactly(int(length[1]))) if length else {}
        path = head.split(" ", 2)[1]
        self.paths.append(path)
        self.requests.append(body)
        if self.fault is Fault.HANG:
            await asyncio.sleep(3600)
        if self.fault is Fault.DISCONNECT:
            return False
        status, answer = self._answer(path, body)
        writer.write(b"HTTP/1.1 %d x\r\ncontent-type: application/json\r\n" % status)
        writer.write(b"content-length: %d\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        return True

    def _answer(self, path: str, body: dict[str, Any]) -> tuple[int, bytes]:
        if self.fault in _STATUS:
            return _STATUS[self.fault], json.dumps({"error": {"message": SECRET_BODY}}).encode()
        if self.fault is Fault.GARBAGE:
            return 200, b"<html>" + SECRET_BODY.encode()
        if self.fault is Fault.EMPTY_OBJECT:
            return 200, b"{}"
        vectors = [self._vector(text) for text in _inputs(body)]
        vectors = vectors[:-1] if self.fault is Fault.TOO_FEW else vectors
        if path.endswith("/api/embed"):
            return 200, json.dumps({"model": body["model"], "embeddings": vectors, "prompt_eval_count": 1}).encode()
        return 200, json.dumps(_openai_answer(body, vectors)).encode()

    def _vector(self, text: str) -> list[float]:
        if self.fault is Fault.ZERO_VECTOR:
            return [0.0] * self.dimension
        if self.fault is Fault.NAN_VECTOR:
            return [math.nan] * self.dimension
        vector = [value * self.scale for value in hashed_vector(text, self.dimension)]
        return vector[:-1] if self.fault is Fault.SHORT_VECTOR else vector


def _inputs(body: dict[str, Any]) -> list[str]:
    given = body.get("input", [])
    return [given] if isinstance(given, str) else list(given)


def _openai_answer(body: dict[str, Any], vectors: list[list[float]]) -> dict[str, Any]:
    packed = body.get("encoding_format") == "base64"
    rows: list[Any] = [_base64(vector) if packed else vector for vector in vectors]
    data = [{"object": "embedding", "index": number, "embedding": row} for number, row in enumerate(rows)]
    usage = {"prompt_tokens": 1, "total_tokens": 1}
    return {"object": "list", "data": data[::-1], "model": body["model"], "usage": usage}


def _base64(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
