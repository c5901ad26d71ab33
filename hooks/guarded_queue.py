"""A queue that is left alone while Redis hangs, so that its callers need not wait for it every time."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import wire
from .breaker import CircuitBreaker
from .contract import Reason
from .queue import QueueClient, QueueFault, Reply

FAILURES = 3
"""Calls in a row that Redis must have let wait before it is left alone."""

PAUSE = 1.0
"""Seconds for which it then is; after that one call tries again."""

COSTLY = 0.05
"""Seconds that a failure must have cost to count: a refused connection costs nothing, and may be over any moment."""


def _breaker() -> CircuitBreaker:
    return CircuitBreaker(FAILURES, PAUSE)


@dataclass(slots=True)
class GuardedQueue:
    """Asks through `queue`; while that is left alone, calls fail at once with the reason that they failed with before.

    `clock` gives monotonic seconds.
    """

    queue: QueueClient
    breaker: CircuitBreaker = field(default_factory=_breaker)
    clock: Callable[[], float] = time.monotonic

    async def ask(self, function: str, payload: bytes | Mapping[str, Any], *, budget: float) -> Reply:
        """As `QueueClient.ask`."""
        started = self.clock()
        if not self.breaker.allow(started):
            raise QueueFault(Reason.QUEUE_UNAVAILABLE, "Redis hung several times in a row and is left alone")
        try:
            reply = await self.queue.ask(function, payload, budget=budget, ack_timeout=wire.ACK_TIMEOUT)
        except QueueFault as fault:
            self._record(fault.reason, started)
            raise
        self.breaker.record_success()
        return reply

    def _record(self, reason: Reason, started: float) -> None:
        now = self.clock()
        if reason is not Reason.QUEUE_UNAVAILABLE:
            self.breaker.record_success()
        elif now - started >= COSTLY:
            self.breaker.record_failure(now)
