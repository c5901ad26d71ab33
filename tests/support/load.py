"""Limits on time that hold on a busy machine."""

import time
from pathlib import Path

STATISTICS = Path("/proc/thread-self/schedstat")
"""Linux: nanoseconds that this thread has run, and that it has been ready to run while others had the cores."""


def waited() -> float:
    """Seconds that this thread has waited for a core so far; 0 where the system does not say."""
    return int(STATISTICS.read_text().split()[1]) / 1e9 if STATISTICS.exists() else 0.0


class Stopwatch:
    """Seconds since it was made, less those that the thread stood ready and other processes had the cores.

    So what a call itself wastes counts in full, and what a busy machine adds does not.
    """

    def __init__(self) -> None:
        self._started, self._waited = time.monotonic(), waited()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started - (waited() - self._waited)
