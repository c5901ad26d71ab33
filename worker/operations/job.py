"""The wrapper that every job runs in: its deadline, its answer, and the errors that become an answer.

The form of an answer is written down in `hooks.wire`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import structlog
from pydantic import ValidationError

from hooks.contract import DEFAULT_DEADLINE_MS, MAX_DEADLINE_MS, Reason, clean_text
from worker.domain.deadline import Deadline
from worker.domain.errors import (
    BadCursor,
    EmbedderError,
    MeeseeksError,
    MemoryRejected,
    ModelError,
    NotFound,
    OperationError,
    QueueError,
    SettingsError,
    StoreError,
    StoreLate,
)
from worker.domain.operation import Operation, OperationAnswer

RESERVE_SHARE = 0.1
MOST_RESERVE = 0.15
"""An operation's deadline lies this share of the budget, and at most so many seconds, before the caller's."""

_log = structlog.get_logger()

_REASONS: tuple[tuple[type[Exception], Reason], ...] = (
    (BadCursor, Reason.BAD_REQUEST),
    (StoreLate, Reason.DEADLINE),
    (StoreError, Reason.STORE_UNAVAILABLE),
    (EmbedderError, Reason.EMBEDDER_UNAVAILABLE),
    (MemoryRejected, Reason.BAD_REQUEST),
    (SettingsError, Reason.BAD_REQUEST),
    (NotFound, Reason.NOT_FOUND),
    (ValidationError, Reason.BAD_REQUEST),
    (TimeoutError, Reason.DEADLINE),
)

JobFunction = Callable[..., Awaitable[None]]

T = TypeVar("T")


class JobChannel(Protocol):
    """What the queue knows of a job that it has taken up, and the way back to its caller."""

    def enqueued_at(self, job_id: str) -> float:
        """When the job was put, in seconds of monotonic time."""
        ...

    async def send(self, job_id: str, answer: bytes) -> None:
        """Bring the answer to the caller. Failures are the channel's to handle."""
        ...


def job_function(operation: Operation, channel: JobChannel) -> JobFunction:
    """The job that runs `operation`; a job without a usable `budget_ms` gets the contract's default."""

    async def run(
        context: dict[str, Any], payload: object = None, budget_ms: object = None, *_: object, **__: object
    ) -> None:
        job_id = context["job_id"]
        budget = _seconds(budget_ms)
        deadline = Deadline(channel.enqueued_at(job_id) + budget)
        if deadline.remaining() > 0:
            await channel.send(job_id, await answer(operation, payload, deadline, budget))

    return run


async def answer(operation: Operation, payload: object, deadline: Deadline, budget: float) -> bytes:
    """Run an operation and put what becomes of it, whatever that is, into the form that callers read."""
    try:
        return await _attempted(operation, payload, deadline, budget, ok_answer)
    except MeeseeksError as error:
        return error_answer(reason_of(error), str(error) or type(error).__name__)


async def attempt(operation: Operation, payload: object, deadline: Deadline, budget: float) -> OperationAnswer:
    """Run an operation for a caller in this process; its body is made of what JSON knows.

    Raises `MeeseeksError` and nothing else: the operation's own, or `OperationError` for whatever else it ends with.
    """
    return await _attempted(operation, payload, deadline, budget, _cleaned)


async def _attempted(
    operation: Operation, payload: object, deadline: Deadline, budget: float, encode: Callable[[OperationAnswer], T]
) -> T:
    """What `encode` makes of an operation's result.

    The operation is told to be done a reserve before the deadline, and is cut off when half of that is used up: so
    an operation that answers in the last moment still reaches its caller. `budget` is the whole time, in seconds.
    """
    reserve = min(MOST_RESERVE, RESERVE_SHARE * budget)
    try:
        if not isinstance(payload, dict):
            raise OperationError(Reason.BAD_REQUEST, "the payload must be a JSON object")
        async with asyncio.timeout(deadline.keeping(reserve / 2).remaining()):
            result = await operation(clean(payload), deadline.keeping(reserve))
        return encode(result)
    except (MeeseeksError, ValidationError, TimeoutError) as error:
        reason = reason_of(error)
        _log.warning("job_failed", reason=reason.value, error=type(error).__name__)
        if isinstance(error, MeeseeksError):
            raise
        raise OperationError(reason, _message(error)) from error
    except Exception as error:  # what nobody foresaw ends one job, never the worker, and its caller is told
        _log.error("job_crashed", error=type(error).__name__)
        raise OperationError(Reason.INTERNAL, type(error).__name__) from error


def _cleaned(result: OperationAnswer) -> OperationAnswer:
    return replace(result, body=clean(result.body))


def reason_of(error: Exception) -> Reason:
    """The reason that callers are given for an error."""
    if isinstance(error, ModelError | QueueError | OperationError):
        return error.reason
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), Reason.INTERNAL)


def ok_answer(result: OperationAnswer) -> bytes:
    """ASCII JSON. `commit` comes first, so that a caller finds the result without parsing."""
    return _ascii({"commit": result.commit, "ok": clean(result.body)})


def error_answer(reason: Reason, message: str) -> bytes:
    return _ascii({"error": {"reason": reason.value, "message": clean_text(message)}})


def clean(value: Any) -> Any:
    """`value`, made of what JSON knows, with every string valid Unicode."""
    if isinstance(value, dict):
        return {clean_text(key): clean(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [clean(part) for part in value]
    return clean_text(value)


def _ascii(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _seconds(budget_ms: object) -> float:
    if isinstance(budget_ms, bool) or not isinstance(budget_ms, int | float) or budget_ms <= 0:
        return DEFAULT_DEADLINE_MS / 1000
    return min(float(budget_ms), MAX_DEADLINE_MS) / 1000


def _message(error: Exception) -> str:
    """What the caller is told; a validation error without the input, which its own text would repeat."""
    if isinstance(error, ValidationError):
        faults = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in faults[:5])
    return str(error) or type(error).__name__
