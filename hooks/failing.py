"""Turn failures into results: calls of this package return a reason instead of raising."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from pydantic import ValidationError

from .contract import AnswerReportResult, InjectionRequest, InjectionResult, Mode, Outcome, Reason, SessionEventResult
from .faults import HookError
from .repeated import RepeatedFailures

_TIMEOUTS = frozenset({Reason.NO_WORKER, Reason.NO_ACK, Reason.BUSY, Reason.DEADLINE})

_log = logging.getLogger(__name__)
_failures: WeakKeyDictionary[asyncio.AbstractEventLoop, RepeatedFailures] = WeakKeyDictionary()
"""The failures of each event loop, which ends with them."""

_failures_of_threads = RepeatedFailures(_log)
"""The failures of threads without an event loop, as in the synchronous hook."""

T = TypeVar("T")


def _warn(message: str) -> None:
    try:
        failures = _failures.setdefault(asyncio.get_running_loop(), RepeatedFailures(_log))
    except RuntimeError:
        failures = _failures_of_threads
    failures.warn(message)


async def safely(work: Awaitable[T], failed: Callable[[Reason], T]) -> T:
    """Return the result of `work`, or `failed(reason)` if it raises."""
    try:
        return await work
    except ValidationError:
        return failed(Reason.BAD_REQUEST)
    except HookError as fault:
        return failed(fault.reason)
    except Exception as error:  # noqa: BLE001 - nothing may ever reach the orchestrator
        _warn(f"the hook failed: {type(error).__name__}")
        return failed(Reason.INTERNAL)


def no_memory(given: InjectionRequest | Mapping[str, Any], reason: Reason, started: float) -> InjectionResult:
    """Return the result of a failed request that started at `started`, in monotonic seconds."""
    _warn(f"no memory injected: {reason.value}")
    outcome = Outcome.TIMEOUT if reason in _TIMEOUTS else Outcome.ERROR
    turn_id = given.turn_id if isinstance(given, InjectionRequest) else None
    return InjectionResult.nothing(outcome, reason, turn_id=turn_id, elapsed_ms=elapsed_ms(started))


def event_not_done(reason: Reason) -> SessionEventResult:
    _warn(f"session event not delivered: {reason.value}")
    return SessionEventResult(done=False, reason=reason)


def report_not_done(reason: Reason) -> AnswerReportResult:
    _warn(f"answer report not delivered: {reason.value}")
    return AnswerReportResult.failed(reason)


def skipped(request: InjectionRequest, started: float) -> InjectionResult | None:
    """Return the result of a request that needs no service call, else `None`."""
    if request.mode is not Mode.OFF:
        return None
    elapsed = elapsed_ms(started)
    return InjectionResult.nothing(Outcome.SKIPPED, Reason.MODE_OFF, turn_id=request.turn_id, elapsed_ms=elapsed)


def elapsed_ms(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
