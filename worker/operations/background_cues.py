"""Write cues for new memories in the background, one call at a time, while nobody waits for an answer.

Memories that have cues are skipped, so a run that was killed continues with the next one. What was spent is counted in
the shared log before each call, so a restart does not renew the budget of the day.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic

import structlog

from worker.domain.errors import MeeseeksError
from worker.domain.memory import Memory
from worker.ports.state import CueLog
from worker.ports.store import WholeStore
from worker.triage.cue_writer import CueWriter

from .client import OperationClient
from .enrichment import Enrichment, EnrichmentLimits, EnrichmentReport, Price, needs_cues
from .lasting import LastingWork

PAGE = 200
PAGE_PAUSE = 0.02
"""Seconds between pages of the store, which leave the machine to answers."""

MOST_FAILURES = 3
"""Failed runs in a row after which something is wrong."""

SPENT = "the calls of today are spent"
OTHER_LEADS = "another worker writes cues"

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Pace:
    """When to write, in seconds.

    `first` after the start, then `every` so often; after failures the pause doubles up to `longest`. Without writes
    that this process knows of, the store is searched again after `search`. A call waits until there was no answer for
    `quiet`, but not longer than `patience`.
    """

    first: float = 60.0
    every: float = 300.0
    longest: float = 6 * 3600.0
    search: float = 3600.0
    quiet: float = 5.0
    patience: float = 60.0
    lease: float = 300.0


PACE = Pace()


class Activity:
    """Knows when the last request was answered."""

    def __init__(self) -> None:
        self._answered = -1e9

    def answered(self) -> None:
        self._answered = monotonic()

    def answered_within(self, seconds: float) -> bool:
        """Return whether a request was answered lately."""
        return monotonic() - self._answered < seconds

    async def quiet(self, pace: Pace) -> None:
        """Wait until there was no answer for a while."""
        left = pace.patience
        while left > 0.0 and (since := monotonic() - self._answered) < pace.quiet:
            pause = min(left, pace.quiet - since)
            await asyncio.sleep(pause)
            left -= pause


@dataclass(frozen=True, slots=True)
class BackgroundCueParts:
    """`open_writer` returns the configured model with the prompt and its price; it raises `MeeseeksError`. `writes`
    returns a number that grows with every write of this process."""

    client: OperationClient
    store: Callable[[], WholeStore]
    open_writer: Callable[[], Awaitable[tuple[CueWriter, Price | None]]]
    log: CueLog
    activity: Activity
    writes: Callable[[], int]
    clock: Callable[[], datetime]
    pace: Pace


class BackgroundCues:
    """Starts at once; close it before the parts."""

    def __init__(self, parts: BackgroundCueParts) -> None:
        self._parts = parts
        self._name = uuid.uuid4().hex
        self._writer: tuple[CueWriter, Price | None] | None = None
        self._tried: set[tuple[str, str, int]] = set()
        self._seen = -1
        self._searched = -1e9
        self._work = LastingWork("background-cues", self._run_always)

    async def aclose(self) -> None:
        await self._work.aclose()

    async def _run_always(self) -> None:
        pace, pause = self._parts.pace, self._parts.pace.first
        while True:
            await asyncio.sleep(pause)
            failures = await self._run_safely()
            pause = min(pace.longest, pace.every * 2.0**failures)

    async def _run_safely(self) -> int:
        """Run once, if this worker leads and anything may be new; return how many runs in a row have failed."""
        try:
            if not self._is_due() or not await self._leads():
                return 0
            seen = self._parts.writes()
            left, fault = await self._run()
            if fault is None:
                self._seen, self._searched = seen, monotonic()
            return await self._parts.log.ended(self._parts.clock(), without_cues=left, fault=fault)
        except MeeseeksError as error:
            log.warning("cues_not_written", reason=str(error))
            return 1

    def _is_due(self) -> bool:
        again = monotonic() - self._searched >= self._parts.pace.search
        return again or self._parts.writes() != self._seen

    async def _leads(self) -> bool:
        return await self._parts.log.lead(self._name, timedelta(seconds=self._parts.pace.lease))

    async def _run(self) -> tuple[int | None, str | None]:
        """Write cues for what has none; return how many memories are left without, and why it stopped, if it failed."""
        pending = await self._pending()
        left = sum(map(len, pending.values()))
        try:
            for tenant, memories in pending.items():
                new = [one for one in memories if (tenant, one.id, one.version) not in self._tried]
                report = await self._write(tenant, new) if new else EnrichmentReport()
                left -= report.enriched
                if report.stopped:
                    return left, None if report.stopped in (SPENT, OTHER_LEADS) else report.stopped
                self._tried.update((tenant, one.id, one.version) for one in new)
        except MeeseeksError as error:
            return left, str(error)
        return left, None

    async def _write(self, tenant: str, memories: list[Memory]) -> EnrichmentReport:
        if self._writer is None:
            self._writer = await self._parts.open_writer()
        limits = EnrichmentLimits(at_once=1, may_ask=self._may_ask, wrote=self._wrote)
        run = Enrichment(self._parts.client, self._writer[0], tenant, limits, self._writer[1])
        plan, spent = run.plan(memories), await self._parts.log.read(self._parts.clock())
        log.info(
            "writing_cues",
            memories=plan.memories,
            calls=plan.calls,
            tokens=plan.input_tokens + plan.output_tokens,
            cost=plan.cost,
            calls_left_today=max(0, spent.most_calls - spent.calls),
        )
        return await run.run(memories)

    async def _may_ask(self) -> str | None:
        """Wait for a quiet moment, and count the call; return why there is none."""
        await self._parts.activity.quiet(self._parts.pace)
        if not await self._leads():
            return OTHER_LEADS
        return None if await self._parts.log.take_call(self._parts.clock()) else SPENT

    async def _wrote(self, memories: int, tokens: int) -> None:
        await self._parts.log.wrote(self._parts.clock(), memories=memories, tokens=tokens)

    async def _pending(self) -> dict[str, list[Memory]]:
        """Return the memories that need cues by tenant."""
        found: dict[str, list[Memory]] = {}
        cursor, now = None, self._parts.clock()
        while True:
            page = await self._parts.store().listing(limit=PAGE, cursor=cursor)
            for entry in page.entries:
                if needs_cues(entry.memory, now):
                    found.setdefault(entry.tenant, []).append(entry.memory)
            cursor = page.cursor
            if cursor is None:
                return found
            await asyncio.sleep(PAGE_PAUSE)
