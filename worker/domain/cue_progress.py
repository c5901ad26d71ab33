"""How far the service has come with writing cues in the background."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class CueProgress:
    """The last run and what was spent today.

    `without_cues` memories were left by the last run. `failures` runs in a row have failed, the last one with `fault`.
    `most_calls` is the daily budget.
    """

    most_calls: int = 0
    calls: int = 0
    tokens: int = 0
    memories: int = 0
    without_cues: int | None = None
    last_run: datetime | None = None
    failures: int = 0
    fault: str | None = None
