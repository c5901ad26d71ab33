"""Stops asking what keeps failing, and tries it again by itself."""

from dataclasses import dataclass


@dataclass(slots=True)
class CircuitBreaker:
    """Opens after `threshold` failures in a row; `pause` seconds later lets one probe through, then one per `pause`.

    Times are monotonic seconds given by the caller; `last` is the reason of the last failure in a row. A probe whose
    outcome is never recorded (its request was cancelled) costs one more pause, never more.
    """

    threshold: int = 5
    pause: float = 20.0
    failures: int = 0
    blocked_until: float | None = None
    last: str | None = None

    @property
    def is_open(self) -> bool:
        return self.blocked_until is not None

    def paused_for(self, now: float) -> float | None:
        """Seconds until the next probe, 0 where it is due; `None` while calls are made as usual."""
        return None if self.blocked_until is None else max(0.0, self.blocked_until - now)

    def allow(self, now: float) -> bool:
        """Whether a call may be made now; while open, this also takes the probe."""
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
        """`pause` is for a failure after which a shorter one than usual will do."""
        self.failures += 1
        self.last = reason
        if self.failures >= self.threshold:
            self.blocked_until = now + (self.pause if pause is None else min(pause, self.pause))
