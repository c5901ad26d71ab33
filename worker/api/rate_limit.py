"""How many requests a caller may make: a token bucket each, filled at a steady rate. Pure: the time is an argument."""

from collections import OrderedDict
from dataclasses import dataclass, field

MOST_CALLERS = 10_000
"""Callers that are kept apart; the one that was quiet for longest is forgotten, and begins with a full bucket."""


@dataclass(slots=True)
class RateLimit:
    """At most `per_minute` requests at once, and so many a minute from then on; 0 is no limit."""

    per_minute: int
    _buckets: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict)

    def take(self, caller: str, now: float) -> float:
        """Seconds until this request may be made; 0 where it may, and then it counts. `now` is in seconds."""
        if self.per_minute == 0:
            return 0.0
        rate = self.per_minute / 60
        left, at = self._buckets.pop(caller, (float(self.per_minute), now))
        left = min(float(self.per_minute), left + max(0.0, now - at) * rate)
        allowed = left >= 1
        self._buckets[caller] = (left - 1 if allowed else left, now)
        if len(self._buckets) > MOST_CALLERS:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - left) / rate
