"""The wrapper around every handler: it decodes the payload, keeps the deadline and encodes the result or error.

`hooks.protocol.wire` documents the format of answers.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
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
    SettingsConflict,
    SettingsError,
    StoreError,
    StoreLate,
)
from worker.domain.fair_line import Caller
from worker.domain.operation import AnyHandler, HandlerResult, OperationAnswer, split_commit
from worker.domain.validation import describe_faults
from worker.injection.capacity import Capacity
from worker.ports.tracing import NO_TRACER, SpanKind, Tracer

from .registry import HEALTH

RESERVE_SHARE = 0.1
MOST_RESERVE = 0.15
"""A handler's deadline precedes the caller's by this share of the budget, but at most by this many seconds."""

_log = structlog.get_logger()

_REASONS: tuple[tuple[type[Exception], Reason], ...] = (
    (BadCursor, Reason.BAD_REQUEST),
    (StoreLate, Reason.DEADLINE),
    (StoreError, Reason.STORE_UNAVAILABLE),
    (EmbedderError, Reason.EMBEDDER_UNAVAILABLE),
    (MemoryRejected, Reason.BAD_REQUEST),
    (SettingsConflict, Reason.CONFLICT),
    (SettingsError, Reason.BAD_REQUEST),
    (NotFound, Reason.NOT_FOUND),
    (ValidationError, Reason.BAD_REQUEST),
    (TimeoutError, Reason.DEADLINE),
)

JobFunction = Callable[..., Awaitable[None]]

T = TypeVar("T")


class JobChannel(Protocol):
    """The queue's side of a job."""

    def enqueued_at(self, job_id: str) -> float:
        """Return when the job was enqueued, in seconds of monotonic time."""
        ...

    async def send(self, job_id: str, answer: bytes) -> None:
        """Send the answer to the caller. Handle failures."""
        ...


def job_function(
    handler: AnyHandler, channel: JobChannel, capacity: Capacity, tracer: Tracer = NO_TRACER
) -> JobFunction:
    """Return the job that runs `handler`; without a valid `budget_ms` it uses the contract's default.

    Its span begins when the job was put into the queue, below the caller's, which `traceparent` names.
    """
    name = handler.operation.name
    tracer = NO_TRACER if handler.operation is HEALTH else tracer
    attributes = {"messaging.operation.type": "process", "messaging.system": "redis", "meeseeks.operation": name}

    async def run(
        context: dict[str, Any],
        payload: object = None,
        budget_ms: object = None,
        *_: object,
        traceparent: object = None,
        **__: object,
    ) -> None:
        job_id = context["job_id"]
        enqueued, budget = channel.enqueued_at(job_id), _seconds(budget_ms)
        deadline, parent = Deadline(enqueued + budget), traceparent if isinstance(traceparent, str) else None
        kind = SpanKind.CONSUMER
        with tracer.span(f"process {name}", kind, parent=parent, since=enqueued, attributes=attributes) as span:
            if deadline.remaining() > 0:
                await channel.send(job_id, await answer(handler, payload, deadline, budget, capacity))
            else:
                span.fail(Reason.DEADLINE.value)

    return run


async def answer(handler: AnyHandler, payload: object, deadline: Deadline, budget: float, capacity: Capacity) -> bytes:
    """Run a handler and return its result or error in the format of the queue."""
    try:
        return await _attempt(handler, payload, deadline, budget, capacity, ok_answer)
    except MeeseeksError as error:
        return error_answer(reason_of(error), str(error) or type(error).__name__)


async def attempt(
    handler: AnyHandler, payload: object, deadline: Deadline, budget: float, capacity: Capacity
) -> OperationAnswer:
    """Run a handler for a caller in this process.

    Raise only `MeeseeksError`: the handler's own, or `OperationError` for any other failure.
    """
    return await _attempt(handler, payload, deadline, budget, capacity, lambda result: result)


async def _attempt(
    handler: AnyHandler,
    payload: object,
    deadline: Deadline,
    budget: float,
    capacity: Capacity,
    encode: Callable[[OperationAnswer], T],
) -> T:
    """Run a handler in its turn and encode its result.

    The handler gets a deadline that is a reserve before the caller's, and is cancelled once half the reserve is used
    up, so that an answer of the last moment still arrives. `budget` is the caller's whole time in seconds.
    """
    reserve = min(MOST_RESERVE, RESERVE_SHARE * budget)
    operation = handler.operation
    try:
        if not isinstance(payload, dict):
            raise OperationError(Reason.BAD_REQUEST, "the payload must be a JSON object")
        request = operation.request.model_validate(clean(payload))
        async with asyncio.timeout(deadline.keeping(reserve / 2).remaining()):
            result, commit = split_commit(await _run(handler, request, deadline.keeping(reserve), capacity))
        body = result.model_dump(mode="json", exclude_unset=operation.omit_unset)
        return encode(OperationAnswer(clean(body), commit))
    except (MeeseeksError, ValidationError, TimeoutError) as error:
        reason = reason_of(error)
        _log.warning("job_failed", reason=reason.value, error=type(error).__name__)
        if isinstance(error, MeeseeksError):
            raise
        raise OperationError(reason, _message(error)) from error
    except Exception as error:  # an unexpected error ends one job, never the worker
        _log.error("job_crashed", error=type(error).__name__)
        raise OperationError(Reason.INTERNAL, type(error).__name__) from error


async def _run(handler: AnyHandler, request: Any, deadline: Deadline, capacity: Capacity) -> HandlerResult[Any]:
    if handler.operation.queues:
        return await handler.run(request, deadline)
    async with capacity.turn(Caller(), deadline):
        return await handler.run(request, deadline)


def reason_of(error: Exception) -> Reason:
    """Return the reason to report for an error."""
    if isinstance(error, ModelError | QueueError | OperationError):
        return error.reason
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), Reason.INTERNAL)


def ok_answer(result: OperationAnswer) -> bytes:
    """Return ASCII JSON with `commit` first, so that a caller finds the result without parsing."""
    return _ascii({"commit": result.commit, "ok": result.body})


def error_answer(reason: Reason, message: str) -> bytes:
    return _ascii({"error": {"reason": reason.value, "message": clean_text(message)}})


def clean(value: Any) -> Any:
    """Return `value` with tuples as lists and every string valid Unicode."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean_text(key): clean(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [clean(part) for part in value]
    return value


def _ascii(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode("ascii")


def _seconds(budget_ms: object) -> float:
    if isinstance(budget_ms, bool) or not isinstance(budget_ms, int | float) or budget_ms <= 0:
        return DEFAULT_DEADLINE_MS / 1000
    return min(float(budget_ms), MAX_DEADLINE_MS) / 1000


def _message(error: Exception) -> str:
    """Return the message for the caller; that of a validation error does not repeat the input."""
    if isinstance(error, ValidationError):
        return describe_faults(error)
    return str(error) or type(error).__name__
