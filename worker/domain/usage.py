"""How often a memory was injected and used. Frozen, no I/O."""

from dataclasses import dataclass
from datetime import datetime

DOUBT = 5.0
"""Injections without use that make a memory half as bad as one that was never used in a great many."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How often a memory was in a block whose answer was reported, and how often that answer used it."""

    injected: int = 0
    used: int = 0
    last_injected: datetime | None = None
    last_used: datetime | None = None

    @property
    def neglect(self) -> float:
        """How sure it is that nobody needs the memory, 0 (not at all) to nearly 1: `(1 - u/n)^2 * n / (n + DOUBT)`."""
        if self.injected <= 0:
            return 0.0
        unused = 1.0 - min(self.used, self.injected) / self.injected
        return unused * unused * self.injected / (self.injected + DOUBT)

    def after(self, used: bool, at: datetime) -> "Usage":
        """The counts with one more answer."""
        last_used = at if used else self.last_used
        return Usage(self.injected + 1, self.used + used, at, last_used)
