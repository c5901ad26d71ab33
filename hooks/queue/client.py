"""Asynchronous client of the job queue: one round trip to enqueue a job, then two blocking reads of its answer."""

import asyncio
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import inf
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from arq.connections import ArqRedis
from redis.exceptions import RedisError

from ..contract import Reason
from ..faults import HookError
from ..protocol import wire
from ..tracing import current_traceparent
from .address import RedisAddressError, open_pool
from .explain import explain

CONNECT_TIMEOUT = 0.25
SOCKET_TIMEOUT = 5.0
"""Seconds without a reply before a connection is dropped; longer than any blocking read of a worker."""

_REFUSALS = {b"NO_WORKER": Reason.NO_WORKER, b"BUSY": Reason.BUSY}


class QueueFault(HookError):
    """A call through the queue failed.

    The queue itself fails with `NO_WORKER`, `BUSY`, `NO_ACK`, `DEADLINE`, `QUEUE_UNAVAILABLE` or `BAD_REPLY`. Other
    reasons come from the worker, which explains them in the message.
    """


@dataclass(frozen=True, slots=True)
class Reply:
    """A job's result and the ledger key and turn id to commit after delivery."""

    body: dict[str, Any]
    commit: tuple[str, str] | None = None


def dump_json(value: object) -> bytes:
    """Return `value` as ASCII JSON, in which even unpaired surrogates are valid UTF-8."""
    return json.dumps(value, separators=(",", ":"), default=_exception_name).encode("ascii")


def load_json(data: bytes) -> Any:
    """Parse JSON. Replace bytes that are not UTF-8."""
    try:
        return json.loads(data)
    except UnicodeDecodeError:
        return json.loads(data.decode("utf-8", "replace"))


def _exception_name(value: object) -> str:
    """Serialize an exception for arq by its type only; its text may hold private data."""
    if isinstance(value, BaseException):
        return type(value).__name__
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def connect(
    url: str, *, connect_timeout: float | None = CONNECT_TIMEOUT, socket_timeout: float | None = SOCKET_TIMEOUT
) -> ArqRedis:
    """Return a client for the URL of a server or of sentinels; see `address`. It connects on first use.

    It never retries, connects within `connect_timeout` seconds and waits `socket_timeout` seconds for a reply. It
    writes jobs as JSON to the queue of this project. Raise `RedisAddressError` if the URL is invalid.
    """
    pool = open_pool(url, {"socket_connect_timeout": connect_timeout, "socket_timeout": socket_timeout})
    client = ArqRedis(pool, job_serializer=dump_json, job_deserializer=load_json, default_queue_name=wire.QUEUE)
    client.auto_close_connection_pool = True
    return client


class QueueClient:
    """Call the worker from any event loop. Every loop has its own connections.

    Without a URL, use `wire.default_redis_url`.
    """

    def __init__(self, redis_url: str | None = None) -> None:
        self._url = redis_url
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    async def ask(
        self,
        function: str,
        payload: bytes | Mapping[str, Any],
        *,
        budget: float,
        ack_timeout: float = wire.ACK_TIMEOUT,
    ) -> Reply:
        """Run the job `function` with a JSON object and wait at most `budget` seconds for its result.

        If no worker accepts the job within `ack_timeout` seconds, withdraw it. Redis gets as long to take the job, and
        at least `wire.ENQUEUE_TIMEOUT`. Raise `QueueFault` on failure.
        """
        body = payload if isinstance(payload, bytes) else dump_json(payload)
        job = _Job(self._client(), function, body, time.monotonic() + budget)
        try:
            answer = await job.run(ack_timeout)
        except TimeoutError:
            raise QueueFault(job.stage) from None
        except (RedisError, OSError) as error:
            raise QueueFault(Reason.QUEUE_UNAVAILABLE, explain(error)) from error
        return read_answer(answer)

    async def commit(self, ledger_key: str, turn_id: str, timeout: float) -> bool:  # noqa: ASYNC109 - it is a budget
        """Mark a turn's memories as shown in the ledger. Return `False` on failure or for an unknown turn."""
        try:
            async with asyncio.timeout(timeout):
                return bool(await _eval(self._client(), wire.COMMIT, (ledger_key,), (turn_id,)))
        except (RedisError, OSError):
            return False

    async def warm(self) -> None:
        """Open a connection in advance. Raise `QueueFault` on failure."""
        try:
            async with asyncio.timeout(wire.ENQUEUE_TIMEOUT):
                await self._client().ping()
        except (RedisError, OSError) as error:
            raise QueueFault(Reason.QUEUE_UNAVAILABLE, explain(error)) from error

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            with suppress(RedisError, OSError):
                await client.aclose()

    def _client(self) -> Any:
        """Return the running loop's client; untyped, because redis-py mixes its sync and async types."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            url = self._url or wire.default_redis_url(os.environ)
            try:
                client = self._clients[loop] = connect(url, connect_timeout=None, socket_timeout=None)
            except RedisAddressError as error:
                raise QueueFault(Reason.QUEUE_UNAVAILABLE, str(error)) from error
        return client


class _Job:
    """A submitted job. `stage` is the reason to report if time runs out now."""

    def __init__(self, client: Any, function: str, payload: bytes, end: float) -> None:
        self.client = client
        self.end = end
        self.job_id = uuid4().hex
        self.stage = Reason.QUEUE_UNAVAILABLE
        self._function = function
        self._payload = payload

    async def run(self, ack_timeout: float) -> bytes:
        """Return the answer. Raise `TimeoutError`."""
        answer = await self._first_message(ack_timeout)
        self.stage = Reason.DEADLINE
        async with asyncio.timeout(self._left()):
            while answer == wire.ACK:  # one more, if the first one came late
                answer = await self._pop(self._left())
            return answer

    async def _first_message(self, ack_timeout: float) -> bytes:
        """Return the acknowledgement or an answer. If neither comes in time, withdraw the job."""
        try:
            async with asyncio.timeout(self._left(max(wire.ENQUEUE_TIMEOUT, ack_timeout))) as limit:
                await self._enqueue()
                self.stage = Reason.NO_ACK
                limit.reschedule(asyncio.get_running_loop().time() + self._left(ack_timeout))
                return await self._pop(ack_timeout)
        except TimeoutError:
            if self.stage is Reason.NO_ACK and not await self._withdraw():
                return wire.ACK  # it came while this process was too busy to read it
            raise

    async def _enqueue(self) -> None:
        budget_ms = int((self.end - time.monotonic()) * 1000)
        if budget_ms <= 0:
            raise QueueFault(Reason.DEADLINE)
        body = wire.job_json(self._function, self._payload, budget_ms, int(time.time() * 1000), current_traceparent())
        arguments = (self.job_id, body, budget_ms, wire.MAX_WAITING, wire.WAKE_TTL_MS)
        status = await _eval(self.client, wire.ENQUEUE, wire.enqueue_keys(self.job_id), arguments)
        if status != b"OK":
            raise QueueFault(_REFUSALS.get(status, Reason.BAD_REPLY))

    async def _pop(self, seconds: float) -> bytes:
        """Return the next message. The timeout of Redis is coarse, so it only backs up ours."""
        popped = await self.client.blpop([wire.REPLY_PREFIX + self.job_id], timeout=seconds + 0.1)
        if popped is None:
            raise TimeoutError
        return bytes(popped[1])

    async def _withdraw(self) -> bool:
        """Withdraw the job if that is quick; return whether to stop waiting. Its key expires with the budget anyway."""
        with suppress(RedisError, OSError):
            async with asyncio.timeout(self._left(wire.GIVE_UP_TIMEOUT)):
                keys = wire.give_up_keys(self.job_id)
                return bool(await _eval(self.client, wire.GIVE_UP, keys, (self.job_id,)) == b"OK")
        return True

    def _left(self, at_most: float = inf) -> float:
        return min(at_most, max(0.0, self.end - time.monotonic()))


async def _eval(client: Any, script: str, keys: tuple[str, ...], arguments: tuple[str | bytes | int, ...]) -> Any:
    """Run a script by its text: one round trip, even right after a Redis restart."""
    return await client.eval(script, len(keys), *keys, *arguments)


def read_answer(answer: bytes) -> Reply:
    """Parse a worker's answer; see `wire` for the format. Raise `QueueFault` if it is an error or invalid."""
    try:
        envelope = load_json(answer)
    except ValueError as error:
        raise QueueFault(Reason.BAD_REPLY, "the answer is not JSON") from error
    match envelope:
        case {"ok": dict() as body, "commit": [str() as ledger_key, str() as turn_id]}:
            return Reply(body, (ledger_key, turn_id))
        case {"ok": dict() as body}:
            return Reply(body)
        case {"error": {"reason": str() as reason, "message": str() as message}}:
            raise QueueFault(Reason(reason), message)
        case _:
            raise QueueFault(Reason.BAD_REPLY, "the answer has an unknown format")
