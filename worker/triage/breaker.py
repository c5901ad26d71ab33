"""Stops asking a model that keeps failing, and tries it again by itself: the breaker that callers use too."""

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
"""Less time than this is not worth a call."""

BREAKING = frozenset({Reason.MODEL_TIMEOUT, Reason.MODEL_UNREACHABLE, Reason.MODEL_RATE_LIMITED, Reason.MODEL_ERROR})
"""Failures that say something about the server; an answer out of shape does not."""


@dataclass(frozen=True, slots=True)
class ModelGuard:
    """Stands before every call of a model, and counts the failures of its server; `clock` gives monotonic seconds."""

    name: str
    breaker: CircuitBreaker
    clock: Callable[[], float]

    async def __call__(self, call: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        """What `call` gives. Raises `ModelError`, without a call where time is too short or the model is paused."""
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
