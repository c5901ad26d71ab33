"""Pause models that keep failing, with the same circuit breaker as the hooks."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from hooks.breaker import CircuitBreaker
from hooks.contract import Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError

__all__ = ["CircuitBreaker", "ModelGuard"]

T = TypeVar("T")

MIN_CALL_S = 0.15
"""Minimum remaining time for a call."""

BREAKING = frozenset({Reason.MODEL_TIMEOUT, Reason.MODEL_UNREACHABLE, Reason.MODEL_RATE_LIMITED, Reason.MODEL_ERROR})
"""Failures of the server; a malformed answer is not one."""


@dataclass(frozen=True, slots=True)
class ModelGuard:
    """Wrap the calls of a model in its circuit breaker; `clock` returns monotonic seconds."""

    name: str
    breaker: CircuitBreaker
    clock: Callable[[], float]

    async def __call__(self, call: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """Return the result of `call`. Raise `ModelError` if it fails, time is too short, or the model is paused."""
        if deadline.remaining() < MIN_CALL_S:
            raise ModelError(Reason.MODEL_NO_TIME, f"{self.name}: too little time for a call")
        if not self.breaker.allow(self.clock()):
            raise ModelError(Reason.MODEL_PAUSED, f"{self.name}: paused after repeated failures")
        try:
            found = await call()
        except ModelError as error:
            if error.reason in BREAKING:
                self.breaker.record_failure(self.clock(), reason=error.reason)
            raise
        self.breaker.record_success()
        return found
