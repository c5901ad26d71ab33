"""One absolute deadline that every step of a request shares."""

import time
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True)
class Deadline:
    """A point in monotonic time, in seconds."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    def keeping(self, reserve: float) -> "Deadline":
        """An earlier deadline that leaves `reserve` seconds for what comes next."""
        return Deadline(self.at - reserve)

    def within(self, seconds: float) -> "Deadline":
        """This deadline, or `seconds` from now where that is sooner."""
        return Deadline(min(self.at, time.monotonic() + seconds))
