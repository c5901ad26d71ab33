"""Log the same failure once, then count it, so that an outage does not fill the log."""

import time
from collections.abc import Callable, MutableMapping
from typing import Any

import structlog

from hooks.repeated import RepetitionCounter

LEVELS = frozenset({"warning", "error"})
Event = MutableMapping[str, Any]
Kind = tuple[tuple[str, str], ...]


class RepeatedLogs:
    """A processor that drops repetitions of a warning or error and adds to the next one how many there were.

    Repetitions agree in all texts; numbers, such as durations, may differ. `report` gets the texts of a failure that
    has ended, if repetitions were dropped; any later line tells that it ended.
    """

    def __init__(self, report: Callable[[Event], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self.failures: RepetitionCounter[Kind] = RepetitionCounter(clock)

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        for kind, count in self.failures.ended():
            self._report({**dict(kind), "repeated": count, "ended": True})
        if event.get("level") not in LEVELS or "ended" in event:
            return event
        repeated = self.failures.due(tuple((name, value) for name, value in event.items() if isinstance(value, str)))
        if repeated is None:
            raise structlog.DropEvent
        return {**event, "repeated": repeated} if repeated else event
