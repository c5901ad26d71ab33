"""Log the same failure once, then count it: a service that is down must not fill the log of the orchestrator."""

import logging
import threading
import time
from collections.abc import Callable

EVERY_S = 60.0
"""Seconds after which a failure that goes on is logged again, with how often it happened meanwhile."""

MOST_KINDS = 100
"""Maximum number of different failures that are counted; of more, the oldest is forgotten."""


class RepeatedFailures:
    """Count failures by their message."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[float, int]] = {}

    def warn(self, message: str) -> None:
        """Log a failure, unless the same one was logged within `EVERY_S`."""
        with self._lock:
            count = self._due(message, self._clock())
        if count is not None:
            self._log.warning("%s%s", message, f" ({count} more times since the last report)" if count else "")

    def _due(self, message: str, now: float) -> int | None:
        """Count a failure; return how often it was not logged, or `None` if it is not due to be logged."""
        logged_at, count = self._seen.pop(message, (now - EVERY_S, 0))
        if now - logged_at < EVERY_S:
            self._seen[message] = (logged_at, count + 1)
            return None
        self._seen[message] = (now, 0)
        while len(self._seen) > MOST_KINDS:
            del self._seen[next(iter(self._seen))]
        return count
