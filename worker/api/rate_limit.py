"""Rate limits: one token bucket per caller."""

from collections import OrderedDict
from dataclasses import dataclass, field

MOST_CALLERS = 10_000
"""Most callers with a bucket; the least recently active one is dropped and starts with a full bucket again."""


@dataclass(slots=True)
class RateLimit:
    """Allows bursts of `per_minute` requests and as many per minute on average; 0 means no limit."""

    per_minute: int
    _buckets: "OrderedDict[str, tuple[float, float]]" = field(default_factory=OrderedDict)

    def take(self, caller: str, now: float) -> float:
        """Return 0 and count the request, or return the seconds to wait. `now` is in seconds."""
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
