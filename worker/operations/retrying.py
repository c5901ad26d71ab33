"""When work that failed is tried again: what lies in the work a few times, an outage for as long as it lasts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hooks.contract import Reason

FAULTY = frozenset(
    {Reason.MODEL_UNPARSEABLE, Reason.MODEL_TRUNCATED, Reason.MODEL_REFUSED, Reason.BAD_REQUEST, Reason.INTERNAL}
)
"""Reasons that lie in the work or in the answer to it; with others, something is away for a while."""


def is_faulty(error: Exception) -> bool:
    """Return whether the same work may fail again although nothing is away."""
    return isinstance(error, OSError) or getattr(error, "reason", None) in FAULTY


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a first failure waits and one of many at most, in seconds; it doubles."""

    first: float = 60.0
    longest: float = 3600.0

    def after(self, failures: int) -> timedelta:
        return timedelta(seconds=min(self.longest, self.first * 2.0 ** min(failures - 1, 32)))


class Outage:
    """Counts failures in a row that do not lie in the work, and knows until when to rest."""

    def __init__(self, pause: Pause) -> None:
        self._pause = pause
        self._failures = 0
        self._until: datetime | None = None

    def rests(self, now: datetime) -> bool:
        return self._until is not None and now < self._until

    def lasts(self, now: datetime) -> datetime:
        """Note another failure; return until when to rest."""
        self._failures += 1
        self._until = now + self._pause.after(self._failures)
        return self._until

    def ends(self) -> None:
        self._failures, self._until = 0, None
