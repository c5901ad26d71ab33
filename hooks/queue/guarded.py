"""A queue client that stops calling Redis for a while after it hangs, so that callers do not wait every time."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..breaker import CircuitBreaker
from ..contract import Reason
from ..protocol import wire
from .client import QueueClient, QueueFault, Reply

FAILURES = 3
"""Slow failures in a row before calls are paused."""

PAUSE = 1.0
"""Seconds without calls; then one call tries again."""

COSTLY = 0.05
"""Seconds that a failure must take to count. A refused connection fails at once and does not count."""


@dataclass(slots=True)
class GuardedQueue:
    """Call `queue` behind a circuit breaker. While that is open, calls fail at once."""

    queue: QueueClient
    breaker: CircuitBreaker = field(default_factory=lambda: CircuitBreaker(FAILURES, PAUSE))
    clock: Callable[[], float] = time.monotonic

    async def ask(self, function: str, payload: bytes | Mapping[str, Any], *, budget: float) -> Reply:
        """See `QueueClient.ask`."""
        started = self.clock()
        if not self.breaker.allow(started):
            raise QueueFault(Reason.QUEUE_UNAVAILABLE, "Redis hung several times in a row; calls are paused")
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
