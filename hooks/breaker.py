"""A circuit breaker."""

from dataclasses import dataclass


@dataclass(slots=True)
class CircuitBreaker:
    """Open after `threshold` failures in a row, then allow one probe per `pause` seconds.

    Callers pass monotonic seconds. `last` is the reason of the most recent failure. A probe whose outcome is never
    recorded, because its request was cancelled, costs one more pause.
    """

    threshold: int = 5
    pause: float = 20.0
    failures: int = 0
    blocked_until: float | None = None
    last: str | None = None

    def paused_for(self, now: float) -> float | None:
        """Return the seconds until the next probe, or `None` while closed."""
        return None if self.blocked_until is None else max(0.0, self.blocked_until - now)

    def allow(self, now: float) -> bool:
        """Return whether a call may start now. While open, this uses up the probe."""
        if self.blocked_until is None:
            return True
        if now < self.blocked_until:
            return False
        self.blocked_until = now + self.pause
        return True

    def record_success(self) -> None:
        self.failures = 0
        self.blocked_until = None
        self.last = None

    def record_failure(self, now: float, pause: float | None = None, *, reason: str | None = None) -> None:
        """Count a failure. `pause` can shorten the usual pause."""
        self.failures += 1
        self.last = reason
        if self.failures >= self.threshold:
            self.blocked_until = now + (self.pause if pause is None else min(pause, self.pause))
