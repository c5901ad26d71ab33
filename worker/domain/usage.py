"""How often a memory was injected and used."""

from dataclasses import dataclass
from datetime import datetime

DOUBT = 5.0
"""Number of unused injections at which `Usage.neglect` reaches one half."""


@dataclass(frozen=True, slots=True)
class Usage:
    """How many reported answers had a memory in their block, and how many of them used it."""

    injected: int = 0
    used: int = 0
    last_injected: datetime | None = None
    last_used: datetime | None = None

    @property
    def neglect(self) -> float:
        """Return the confidence that nobody needs the memory, 0 to nearly 1: `(1 - u/n)^2 * n / (n + DOUBT)`."""
        if self.injected <= 0:
            return 0.0
        unused = 1.0 - min(self.used, self.injected) / self.injected
        return unused * unused * self.injected / (self.injected + DOUBT)

    def after(self, used: bool, at: datetime) -> "Usage":
        """Return the counts with one more answer."""
        last_used = at if used else self.last_used
        return Usage(self.injected + 1, self.used + used, at, last_used)
