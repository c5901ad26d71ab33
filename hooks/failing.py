"""How every call of this package fails: never with an exception, always with a reason."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from .contract import InjectionRequest, InjectionResult, Mode, Outcome, Reason, SessionEventResult
from .faults import HookError
from .usage_contract import AnswerReportResult

_TIMEOUTS = frozenset({Reason.NO_WORKER, Reason.NO_ACK, Reason.BUSY, Reason.DEADLINE})

_log = logging.getLogger(__name__)

T = TypeVar("T")


async def safely(work: Awaitable[T], failed: Callable[[Reason], T]) -> T:
    """What `work` brings, or `failed` with the reason why it brings nothing."""
    try:
        return await work
    except ValidationError:
        return failed(Reason.BAD_REQUEST)
    except HookError as fault:
        return failed(fault.reason)
    except Exception as error:  # noqa: BLE001 - nothing may ever reach the orchestrator
        _log.warning("the hook failed: %s", type(error).__name__)
        return failed(Reason.INTERNAL)


def no_memory(given: InjectionRequest | Mapping[str, Any], reason: Reason, started: float) -> InjectionResult:
    """The result of a request that nobody answered; `started` is a point in monotonic time, in seconds."""
    _log.warning("no memory injected: %s", reason.value)
    outcome = Outcome.TIMEOUT if reason in _TIMEOUTS else Outcome.ERROR
    turn_id = given.turn_id if isinstance(given, InjectionRequest) else None
    return InjectionResult.nothing(outcome, reason, turn_id=turn_id, elapsed_ms=elapsed_ms(started))


def event_not_done(reason: Reason) -> SessionEventResult:
    """The result of an event that nobody took."""
    _log.warning("the ledger was not told of a session event: %s", reason.value)
    return SessionEventResult(done=False, reason=reason)


def report_not_done(reason: Reason) -> AnswerReportResult:
    """The result of a report that nobody took."""
    _log.warning("the service was not told of an answer: %s", reason.value)
    return AnswerReportResult.failed(reason)


def skip_reason(request: InjectionRequest) -> Reason | None:
    """Why nobody need be asked at all."""
    if request.mode is Mode.OFF:
        return Reason.MODE_OFF
    if not request.message.strip() and not (request.task_description or "").strip():
        return Reason.EMPTY_MESSAGE
    return None


def skipped(request: InjectionRequest, started: float) -> InjectionResult | None:
    """The result of a request that needs nobody to answer it, `None` for every other."""
    reason = skip_reason(request)
    if reason is None:
        return None
    return InjectionResult.nothing(Outcome.SKIPPED, reason, turn_id=request.turn_id, elapsed_ms=elapsed_ms(started))


def elapsed_ms(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
