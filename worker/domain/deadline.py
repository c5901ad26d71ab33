"""The deadline that all steps of a request share."""

import time
from dataclasses import dataclass
from typing import Self

DEFAULT_HOOK_DEADLINE_MS = 2800
"""Default deadline of a hook call in milliseconds; the host's own limit is one second more."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in monotonic time, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Return the seconds left, at least 0."""
        return max(0.0, self.at - time.monotonic())

    def keeping(self, reserve: float) -> "Deadline":
        """Return a deadline `reserve` seconds earlier."""
        return Deadline(self.at - reserve)

    def within(self, seconds: float) -> "Deadline":
        """Return the earlier of this deadline and `seconds` from now."""
        return Deadline(min(self.at, time.monotonic() + seconds))

    def share(self, part: float, *, least: float = 0.0) -> "Deadline":
        """Return a deadline for `part` of the seconds left or for `least` seconds, but no later than this one."""
        return self.within(max(least, part * self.remaining()))
