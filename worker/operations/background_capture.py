"""Let a model read conversations in the background, one call at a time, within the limits of the day.

What waits is kept in Redis until it is done, so that a worker that is killed loses nothing; what was written before is
not written again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import structlog

from hooks.contract import Reason
from hooks.contract.capture import CaptureMode
from worker.capture.service import is_full
from worker.domain.capture import CapturedChange, CaptureReading, CaptureReceipt, CaptureWork
from worker.domain.errors import MeeseeksError
from worker.ports.capture import CaptureQueue, Spent, Taken
from worker.text.tokens import estimate_tokens

from .background_cues import Activity, Pace
from .client import OperationClient
from .lasting import polled
from .registry import CAPTURE_READ, CAPTURE_SETTLE, PROPOSALS
from .results import ProposalList
from .retrying import Outage, Pause, is_faulty

CALL_S = 120.0
"""Seconds for one reading."""

MOST_ATTEMPTS = 6
"""Attempts to read a window whose answers are of no use, an hour apart at most, before it is given up."""

BESIDES = 3_000
"""Tokens of a call at most besides the turns: the prompt, ten memories, and the answer."""

UNSPENT = frozenset({Reason.MODEL_UNREACHABLE, Reason.MODEL_RATE_LIMITED, Reason.MODEL_NO_TIME, Reason.MODEL_PAUSED})
"""Reasons for which no model has read anything."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CapturePace:
    """How often work is looked for, and how long it waits after a failure or with a full inbox, in seconds."""

    every: float = 1.0
    again: Pause = field(default_factory=Pause)
    lease: float = 600.0
    full: float = 600.0


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
    """Starts at once; close it before the parts.

    While the model, the store or Redis is away, nothing is read for a growing pause, and no attempts are counted.
    """

    def __init__(self, parts: BackgroundCaptureParts) -> None:
        self._parts = parts
        self._outage = Outage(parts.capture_pace.again)
        self._work = polled("background-capture", self._run_once, parts.capture_pace.every)

    async def aclose(self) -> None:
        await self._work.aclose()

    async def _run_once(self) -> bool:
        """Read what is due; return whether there was anything."""
        now, lease = self._parts.clock(), timedelta(seconds=self._parts.capture_pace.lease)
        work = None if self._outage.rests(now) else await self._parts.queue.claim(now, lease)
        if work is None:
            return False
        await self._parts.activity.quiet(self._parts.pace)
        reserved = _tokens(work)
        later = await self._later(work, now, reserved)
        if later is not None:
            await self._parts.queue.put(work, later)
            return True
        try:
            memories, used = await self._read(work, reserved)
        except MeeseeksError as error:
            await self._again(work, error, Taken(now, reserved), now + lease)
            return True
        self._outage.ends()
        await self._parts.queue.ended(Taken(now, reserved), used=used, memories=memories)
        await self._parts.queue.done(work, now + lease)
        return True

    async def _later(self, work: CaptureWork, now: datetime, tokens: int) -> datetime | None:
        """Return when work must wait for: room for its proposals, or the limits of another day. Count its call else."""
        if work.mode is CaptureMode.REVIEW:
            found = await self._parts.client.call(PROPOSALS, {"tenant": work.source.tenant}, budget=CALL_S)
            if is_full(ProposalList.model_validate(found).proposals, work.source):
                return now + timedelta(seconds=self._parts.capture_pace.full)
        if not await self._parts.queue.take_call(now, tokens):
            log.info("capture_limit_reached")
            return _tomorrow(now)
        return None

    async def _read(self, work: CaptureWork, reserved: int) -> tuple[int, Spent]:
        """Read and settle a piece of work; return the number of memories and proposals, and what it took.

        A model that tells no tokens took those that were `reserved`.
        """
        found = await self._parts.client.call(CAPTURE_READ, work.model_dump(mode="json"), budget=CALL_S)
        reading = CaptureReading.model_validate(found)
        receipt = _receipt(work, reading, self._parts.clock())
        settled = await self._parts.client.call(CAPTURE_SETTLE, receipt.model_dump(mode="json"), budget=CALL_S)
        changes: list[Any] = settled["changes"]
        return len(changes), Spent(reading.input_tokens + reading.output_tokens or reserved, reading.cost or 0.0)

    async def _again(self, work: CaptureWork, error: MeeseeksError, taken: Taken, leased: datetime) -> None:
        """Try again later, or give up what has no usable answer; the user's own requests were kept before."""
        now, faulty = self._parts.clock(), is_faulty(error)
        used = None if getattr(error, "reason", None) in UNSPENT else Spent(taken.tokens)
        await self._parts.queue.ended(taken, used=used, memories=0, fault=str(error))
        attempts = work.attempts + faulty
        log.warning("capture_failed", attempts=attempts, error=type(error).__name__)
        if attempts >= MOST_ATTEMPTS:
            await self._parts.queue.done(work, leased)
            return
        due = now + self._parts.capture_pace.again.after(attempts) if faulty else self._outage.lasts(now)
        await self._parts.queue.put(work.model_copy(update={"attempts": attempts}), due)


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
    """Return about how many tokens a call takes at most; what it took is counted after it."""
    return BESIDES + sum(estimate_tokens(turn.text) for turn in work.window)


def _tomorrow(now: datetime) -> datetime:
    return (now + timedelta(days=1)).replace(hour=0, minute=0, second=5, microsecond=0)
