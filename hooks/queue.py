"""The asynchronous client of the job queue: one round trip to put a job, then two blocking reads of its answer."""

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
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import RedisError

from . import wire
from .contract import Reason
from .faults import HookError

CONNECT_TIMEOUT = 0.25
SOCKET_TIMEOUT = 5.0
"""Seconds without a reply after which a connection is given up; longer than any blocking read of a worker."""

_REFUSALS = {b"NO_WORKER": Reason.NO_WORKER, b"BUSY": Reason.BUSY}


class QueueFault(HookError):
    """A question was not answered.

    Reasons of the queue's own: `NO_WORKER`, `BUSY`, `NO_ACK`, `DEADLINE`, `QUEUE_UNAVAILABLE` and `BAD_REPLY`; every
    other reason is the worker's, which then explains it in the message.
    """


@dataclass(frozen=True, slots=True)
class Reply:
    """A job's result, and what to commit once it has been delivered: the ledger's key and the turn's id."""

    body: dict[str, Any]
    commit: tuple[str, str] | None = None


class _Pool(ConnectionPool):
    """A pool that never keeps a connection whose greeting was cut short: its replies would answer later commands."""

    async def ensure_connection(self, connection: AbstractConnection) -> None:
        ready = False
        try:
            await super().ensure_connection(connection)
            ready = True
        finally:
            if not ready:
                await connection.disconnect(nowait=True)


def dump_json(value: object) -> bytes:
    """ASCII JSON, so that even unpaired surrogates are valid UTF-8 on the wire."""
    return json.dumps(value, separators=(",", ":"), default=_exception_name).encode("ascii")


def load_json(data: bytes) -> Any:
    """JSON, where bytes that are not UTF-8 cost characters and not the call."""
    try:
        return json.loads(data)
    except UnicodeDecodeError:
        return json.loads(data.decode("utf-8", "replace"))


def _exception_name(value: object) -> str:
    """arq serializes exceptions; their type says enough, and their text may hold what nobody should keep."""
    if isinstance(value, BaseException):
        return type(value).__name__
    raise TypeError(f"{type(value).__name__} is not JSON")


def connect(url: str, *, socket_timeout: float | None = SOCKET_TIMEOUT) -> ArqRedis:
    """A client for `unix://`, `redis://` or `rediss://`; nothing is opened before its first command.

    It never retries, gives up connecting after `CONNECT_TIMEOUT` and waiting for a reply after `socket_timeout`
    seconds, and writes jobs as JSON to this project's queue. Raises `ValueError` for another kind of URL.
    """
    pool = _Pool.from_url(
        url,
        socket_connect_timeout=CONNECT_TIMEOUT,
        socket_timeout=socket_timeout,
        lib_name=None,
        lib_version=None,
    )
    client = ArqRedis(pool, job_serializer=dump_json, job_deserializer=load_json, default_queue_name=wire.QUEUE)
    client.auto_close_connection_pool = True  # the pool is the client's own, and is closed with it
    return client


class QueueClient:
    """Asks the worker, from any event loop; every loop has its own connections.

    `aclose` closes those of the running loop. Without a URL the environment decides, see `wire.default_redis_url`.
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
        """Run the job `function` on a JSON object and wait for its result, at most `budget` seconds.

        A worker that has not taken the job up within `ack_timeout` seconds is not waited for, and the job is taken
        back. Raises `QueueFault`.
        """
        body = payload if isinstance(payload, bytes) else dump_json(payload)
        question = _Question(self._client(), function, body, time.monotonic() + budget)
        try:
            answer = await question.put_and_wait(ack_timeout)
        except TimeoutError:
            if question.stage is Reason.NO_ACK:
                await question.give_up()
            raise QueueFault(question.stage) from None
        except (RedisError, OSError) as error:
            raise QueueFault(Reason.QUEUE_UNAVAILABLE, type(error).__name__) from error
        return read_answer(answer)

    async def commit(self, ledger_key: str, turn_id: str, timeout: float) -> bool:  # noqa: ASYNC109 - it is a budget
        """Tell the ledger that a turn's memories were delivered; `False` when that failed or it knows no such turn."""
        try:
            async with asyncio.timeout(timeout):
                return bool(await _eval(self._client(), wire.COMMIT, (ledger_key,), (turn_id,)))
        except (RedisError, OSError):
            return False

    async def warm(self) -> None:
        """Open a connection, so that the first question need not. Raises `QueueFault`."""
        try:
            async with asyncio.timeout(wire.ENQUEUE_TIMEOUT):
                await self._client().ping()
        except (RedisError, OSError) as error:
            raise QueueFault(Reason.QUEUE_UNAVAILABLE, type(error).__name__) from error

    async def aclose(self) -> None:
        """Close the running loop's connections."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            with suppress(RedisError, OSError):
                await client.aclose()

    def _client(self) -> Any:
        """The running loop's client, untyped: redis-py types its commands for both of its clients at once."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            url = self._url or wire.default_redis_url(os.environ)
            try:
                client = self._clients[loop] = connect(url, socket_timeout=None)
            except ValueError as error:
                raise QueueFault(Reason.QUEUE_UNAVAILABLE, "the address of Redis is not a valid URL") from error
        return client


class _Question:
    """One job on its way. `stage` is the reason to give should time run out now."""

    def __init__(self, client: Any, function: str, payload: bytes, end: float) -> None:
        self.client = client
        self.end = end
        self.job_id = uuid4().hex
        self.stage = Reason.QUEUE_UNAVAILABLE
        self._function = function
        self._payload = payload

    async def put_and_wait(self, ack_timeout: float) -> bytes:
        async with asyncio.timeout(self._left(wire.ENQUEUE_TIMEOUT)) as limit:
            await self._put()
            self._enter(Reason.NO_ACK, limit, ack_timeout)
            answer = await self._pop(ack_timeout)
            if answer == wire.ACK:
                self._enter(Reason.DEADLINE, limit, inf)
                answer = await self._pop(self._left(inf))
            return answer

    async def _put(self) -> None:
        budget_ms = int((self.end - time.monotonic()) * 1000)
        if budget_ms <= 0:
            raise QueueFault(Reason.DEADLINE)
        job = wire.job_json(self._function, self._payload, budget_ms, int(time.time() * 1000))
        arguments = (self.job_id, job, budget_ms, wire.MAX_WAITING, wire.WAKE_TTL_MS)
        put = await _eval(self.client, wire.ENQUEUE, wire.enqueue_keys(self.job_id), arguments)
        if put != b"OK":
            raise QueueFault(_REFUSALS.get(put, Reason.BAD_REPLY))

    async def _pop(self, seconds: float) -> bytes:
        """The next message of the reply list; Redis' own timeout is coarse and only cleans up behind ours."""
        popped = await self.client.blpop([wire.REPLY_PREFIX + self.job_id], timeout=seconds + 0.1)
        if popped is None:
            raise TimeoutError
        return bytes(popped[1])

    async def give_up(self) -> None:
        """Take the job back, as far as that is quickly possible; at the end of the budget its key expires anyhow."""
        with suppress(RedisError, OSError):
            async with asyncio.timeout(self._left(wire.GIVE_UP_TIMEOUT)):
                await _eval(self.client, wire.GIVE_UP, wire.give_up_keys(self.job_id), (self.job_id,))

    def _left(self, at_most: float) -> float:
        return min(at_most, max(0.0, self.end - time.monotonic()))

    def _enter(self, stage: Reason, limit: asyncio.Timeout, seconds: float) -> None:
        self.stage = stage
        limit.reschedule(asyncio.get_running_loop().time() + self._left(seconds))


async def _eval(client: Any, script: str, keys: tuple[str, ...], arguments: tuple[str | bytes | int, ...]) -> Any:
    """Run a script by its text: always one round trip, also right after a restart of Redis."""
    return await client.eval(script, len(keys), *keys, *arguments)


def read_answer(answer: bytes) -> Reply:
    """What a worker's answer says, see `wire`. Raises `QueueFault`."""
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
            raise QueueFault(Reason.BAD_REPLY, "the answer has another form than expected")
