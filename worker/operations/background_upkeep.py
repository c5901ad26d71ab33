"""Run upkeep every night, and go on with a run that was interrupted."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from worker.domain.upkeep import UpkeepMode
from worker.ports.upkeep import UpkeepRuns
from worker.upkeep.runs import UpkeepRunner

from .lasting import polled

EVERY_S = 60.0
"""Seconds between looks at the clock."""

LATEST_H = 4
"""Hours in which the nightly run may begin; a service that was off then runs the next night."""


@dataclass(frozen=True, slots=True)
class NightlyParts:
    """`zone` returns the time zone in which `hour` is meant."""

    runner: UpkeepRunner
    runs: UpkeepRuns
    mode: UpkeepMode
    hour: int
    zone: Callable[[], tzinfo]
    clock: Callable[[], datetime]


class BackgroundUpkeep:
    """Starts at once; close it before the parts."""

    def __init__(self, parts: NightlyParts, every: float = EVERY_S) -> None:
        self._parts = parts
        self._work = polled("background-upkeep", self._once, every)

    async def aclose(self) -> None:
        await self._work.aclose()
        await self._parts.runner.aclose()

    async def _once(self) -> bool:
        """Go on with an interrupted run, or run if it is night; return whether there may be more to do."""
        parts = self._parts
        if await parts.runner.resume():
            return True
        now = parts.clock().astimezone(parts.zone())
        night = (now - timedelta(hours=parts.hour)).date()
        late = (now.hour - parts.hour) % 24 >= LATEST_H
        if parts.mode is UpkeepMode.OFF or late or await parts.runs.night() == night:
            return False
        if await parts.runner.night(apply=parts.mode is UpkeepMode.APPLY):
            await parts.runs.note_night(night)
        return False
