"""Let a model read conversations in the background, one call at a time, within the limits of the day.

What waits is kept in Redis until it is done, so that a worker that is killed loses nothing; what was written before is
not written again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from worker.domain.capture import CapturedChange, CaptureReading, CaptureReceipt, CaptureWork
from worker.domain.errors import MeeseeksError
from worker.ports.capture import CaptureQueue

from .background_cues import Activity, Pace
from .client import OperationClient
from .lasting import polled
from .registry import CAPTURE_READ, CAPTURE_SETTLE

CALL_S = 120.0
"""Seconds for one reading."""

MOST_ATTEMPTS = 6
"""Attempts to read a window, an hour apart at most, before it is given up."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CapturePace:
    """How often work is looked for, and how long a failed reading waits at first, in seconds."""

    every: float = 1.0
    again: float = 60.0
    longest: float = 3600.0
    lease: float = 600.0


CAPTURE_PACE = CapturePace()


@dataclass(frozen=True, slots=True)
class BackgroundCaptureParts:
    """`pace` says when a moment is quiet enough for a call."""

    client: OperationClient
    queue: CaptureQueue
    activity: Activity
    clock: Callable[[], datetime]
    pace: Pace
    capture_pace: CapturePace


class BackgroundCapture:
    """Starts at once; close it before the parts."""

    def __init__(self, parts: BackgroundCaptureParts) -> None:
        self._parts = parts
        self._work = polled("background-capture", self._run_once, parts.capture_pace.every)

    async def aclose(self) -> None:
        await self._work.aclose()

    async def _run_once(self) -> bool:
        """Read what is due; return whether there was anything."""
        now, lease = self._parts.clock(), timedelta(seconds=self._parts.capture_pace.lease)
        work = await self._parts.queue.claim(now, lease)
        if work is None:
            return False
        await self._parts.activity.quiet(self._parts.pace)
        if not await self._parts.queue.take_call(now, _tokens(work)):
            await self._parts.queue.put(work, _tomorrow(now))
            log.info("capture_limit_reached")
            return True
        try:
            memories = await self._read(work)
        except MeeseeksError as error:
            await self._again(work, error, now + lease)
            return True
        await self._parts.queue.ended(now, memories=memories, fault=None)
        await self._parts.queue.done(work, now + lease)
        return True

    async def _read(self, work: CaptureWork) -> int:
        """Read and settle a piece of work; return the number of memories and proposals."""
        found = await self._parts.client.call(CAPTURE_READ, work.model_dump(mode="json"), budget=CALL_S)
        reading = CaptureReading.model_validate(found)
        receipt = _receipt(work, reading, self._parts.clock())
        settled = await self._parts.client.call(CAPTURE_SETTLE, receipt.model_dump(mode="json"), budget=CALL_S)
        changes: list[Any] = settled["changes"]
        return len(changes)

    async def _again(self, work: CaptureWork, error: MeeseeksError, leased: datetime) -> None:
        """Try again later, or give up; the user's own requests were kept before."""
        now, pace, attempts = self._parts.clock(), self._parts.capture_pace, work.attempts + 1
        await self._parts.queue.ended(now, memories=0, fault=str(error))
        log.warning("capture_failed", attempts=attempts, error=type(error).__name__)
        if attempts >= MOST_ATTEMPTS:
            await self._parts.queue.done(work, leased)
            return
        pause = min(pace.longest, pace.again * 2.0 ** (attempts - 1))
        again = work.model_copy(update={"attempts": attempts})
        await self._parts.queue.put(again, now + timedelta(seconds=pause))


def _receipt(work: CaptureWork, reading: CaptureReading, now: datetime) -> CaptureReceipt:
    return CaptureReceipt(
        id=work.id,
        at=now,
        source=work.source,
        mode=work.mode,
        changes=tuple(CapturedChange(change=change, id=change.memory.id) for change in reading.changes),
        drops=reading.drops,
        model=reading.model,
        prompt=reading.prompt,
        calls=1,
        input_tokens=reading.input_tokens,
        output_tokens=reading.output_tokens,
    )


def _tokens(work: CaptureWork) -> int:
    """Return about how many tokens a call takes: the prompt, the turns, the memories beside them, and the answer."""
    return 2_500 + sum(len(turn.text) for turn in work.window) // 3


def _tomorrow(now: datetime) -> datetime:
    return (now + timedelta(days=1)).replace(hour=0, minute=0, second=5, microsecond=0)
