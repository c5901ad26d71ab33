"""Log the same failure once, then count it: a service that is down must not fill a log."""

import logging
import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

EVERY_S = 60.0
"""Seconds after which a failure that goes on is logged again, with how often it happened meanwhile."""

MOST_KINDS = 100
"""Maximum number of different failures that are counted; of more, the one seen longest ago is forgotten."""

Kind = TypeVar("Kind", bound=Hashable)


@dataclass(slots=True)
class _Seen:
    logged_at: float
    seen_at: float
    uncounted: int = 0


class RepetitionCounter(Generic[Kind]):
    """Counts failures by kind; safe to use from several threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[Kind, _Seen] = {}

    def __len__(self) -> int:
        return len(self._seen)

    def due(self, kind: Kind) -> int | None:
        """Count a failure; return how often it was not logged before, or `None` if it is not due to be logged."""
        with self._lock:
            now = self._clock()
            seen = self._seen.pop(kind, None) or _Seen(now - EVERY_S, now)
            self._seen[kind] = seen  # behind all others
            seen.seen_at = now
            if now - seen.logged_at < EVERY_S:
                seen.uncounted += 1
                return None
            count, seen.uncounted, seen.logged_at = seen.uncounted, 0, now
            while len(self._seen) > MOST_KINDS:
                del self._seen[next(iter(self._seen))]
            return count

    def ended(self) -> list[tuple[Kind, int]]:
        """Forget the failures that were not seen for `EVERY_S`, and return those that were not all logged."""
        with self._lock:
            now = self._clock()
            old = [kind for kind, seen in self._seen.items() if now - seen.seen_at >= EVERY_S]
            forgotten = [(kind, self._seen.pop(kind).uncounted) for kind in old]
            return [(kind, count) for kind, count in forgotten if count]


class RepeatedFailures:
    """Log failures, each message once and then with its count."""

    def __init__(self, log: logging.Logger, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._failures: RepetitionCounter[str] = RepetitionCounter(clock)

    def warn(self, message: str) -> None:
        """Log a failure, unless the same one was logged within `EVERY_S`."""
        count = self._failures.due(message)
        if count is not None:
            self._log.warning("%s%s", message, f" ({count} more times since the last report)" if count else "")
