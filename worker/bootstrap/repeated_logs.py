"""Log the same failure once, then count it, so that an outage does not fill the log."""

import time
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import structlog

from hooks.repeated import EVERY_S, MOST_KINDS

LEVELS = frozenset({"warning", "error"})
Event = MutableMapping[str, Any]


@dataclass(slots=True)
class _Failure:
    logged_at: float
    seen_at: float
    event: Event
    uncounted: int = 0


class RepeatedLogs:
    """A processor that drops repetitions of a warning or error and adds to the next one how many there were.

    Repetitions agree in all texts; numbers, such as durations, may differ. `report` gets a failure that has ended, if
    repetitions were dropped; any later line tells that it ended.
    """

    def __init__(self, report: Callable[[Event], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._report = report
        self._clock = clock
        self._failures: dict[tuple[str, ...], _Failure] = {}

    def __call__(self, _logger: Any, _method: str, event: Event) -> Event:
        now = self._clock()
        self._report_ended(now)
        if event.get("level") not in LEVELS:
            return event
        kind = tuple(f"{name}={value}" for name, value in event.items() if isinstance(value, str))
        failure = self._failures.setdefault(kind, _Failure(now - EVERY_S, now, event))
        failure.seen_at = now
        if now - failure.logged_at < EVERY_S:
            failure.uncounted += 1
            raise structlog.DropEvent
        repeated, failure.uncounted, failure.logged_at = failure.uncounted, 0, now
        self._forget_oldest()
        return {**event, "repeated": repeated} if repeated else event

    def _report_ended(self, now: float) -> None:
        for kind, failure in [*self._failures.items()]:
            if now - failure.seen_at >= EVERY_S:
                del self._failures[kind]
                if failure.uncounted:
                    self._report({**failure.event, "repeated": failure.uncounted, "ended": True})

    def _forget_oldest(self) -> None:
        while len(self._failures) > MOST_KINDS:
            del self._failures[next(iter(self._failures))]
