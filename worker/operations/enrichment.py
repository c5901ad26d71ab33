"""Write cues for memories that have none, through an operation client: in the background, or for a command.

What is written is stored batch by batch, and memories with cues are skipped, so an interrupted run can be repeated.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from hooks.contract import Reason
from worker.domain.cues import Cue, CueOrigin
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError
from worker.domain.memory import Memory, is_superseded
from worker.triage.cue_writer import MEMORIES_PER_CALL, CueWriter

from .bulk import WRITE_BUDGET, batches, pages
from .client import OperationClient
from .registry import ADD_CUES

CALL_S = 120.0
"""Seconds for one call of the model."""

AT_ONCE = 4
"""Calls of the model at a time."""

MOST_FAILURES = 3
"""Failed calls in a row after which a run ends."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per token."""

    read: float
    written: float

    def of(self, read: int, written: int) -> float:
        return self.read * read + self.written * written


@dataclass(frozen=True, slots=True)
class EnrichmentPlan:
    """What a run would take at most: `cost` in US dollars is `None` if the model's price is unknown."""

    memories: int
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float | None


@dataclass(slots=True)
class EnrichmentReport:
    """What a run has done. `left` memories got no cues, because the model failed or had none for them."""

    enriched: int = 0
    cues: int = 0
    left: int = 0
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    stopped: str | None = None
    failures: int = 0

    def failed(self, error: ModelError) -> None:
        self.failures += 1
        if self.failures >= MOST_FAILURES or error.reason is Reason.MODEL_UNREACHABLE:
            self.stopped = str(error)


@dataclass(frozen=True, slots=True)
class EnrichmentLimits:
    """`redo` also replaces cues of another prompt; `max_cost` is in US dollars.

    `may_ask` is awaited before each call and returns why there must be none, `wrote` after what it wrote is stored,
    with the numbers of memories and tokens.
    """

    redo: bool = False
    limit: int | None = None
    max_cost: float | None = None
    at_once: int = AT_ONCE
    may_ask: Callable[[], Awaitable[str | None]] | None = None
    wrote: Callable[[int, int], Awaitable[None]] | None = None


class Enrichment:
    """One run over a tenant's memories."""

    def __init__(
        self, client: OperationClient, writer: CueWriter, tenant: str, limits: EnrichmentLimits, price: Price | None
    ) -> None:
        self._client = client
        self._writer = writer
        self._tenant = tenant
        self._limits = limits
        self._price = price

    async def pending(self, now: datetime) -> list[Memory]:
        """Return the valid memories that need cues, at most `limit`."""
        found: list[Memory] = []
        redo = self._writer.prompt_id if self._limits.redo else None
        async for page in pages(self._client, self._tenant):
            found += [memory for memory in page if needs_cues(memory, now, redo=redo)]
            if self._limits.limit is not None and len(found) >= self._limits.limit:
                return found[: self._limits.limit]
        return found

    def plan(self, memories: Sequence[Memory]) -> EnrichmentPlan:
        estimates = [self._writer.estimate(batch) for batch in batches(memories, MEMORIES_PER_CALL)]
        read, written = sum(one for one, _ in estimates), sum(one for _, one in estimates)
        cost = self._price.of(read, written) if self._price else None
        return EnrichmentPlan(len(memories), len(estimates), read, written, cost)

    async def run(
        self,
        memories: Sequence[Memory],
        advance: Callable[[int], None] = lambda _: None,
        report: EnrichmentReport | None = None,
    ) -> EnrichmentReport:
        """Write cues; `advance` is called with the number of memories that are done. An earlier `report` goes on."""
        report = report or EnrichmentReport(cost=None if self._price is None else 0.0)
        async for wave in _waves(memories, self._limits.at_once):
            if report.stopped or self._over_budget(report, wave):
                break
            await asyncio.gather(*(self._batch(batch, report, advance) for batch in wave))
        return report

    def _over_budget(self, report: EnrichmentReport, wave: Iterable[Sequence[Memory]]) -> bool:
        """Return whether the next calls may exceed the budget, and say so in the report."""
        most, price = self._limits.max_cost, self._price
        if most is None or price is None:
            return False
        expected = sum(price.of(*self._writer.estimate(batch)) for batch in wave)
        if (report.cost or 0.0) + expected <= most:
            return False
        report.stopped = f"the next calls would exceed --max-cost {most:g}"
        return True

    async def _batch(self, batch: Sequence[Memory], report: EnrichmentReport, advance: Callable[[int], None]) -> None:
        before = report.input_tokens + report.output_tokens
        cues, added = await self._written(batch, report), list[str]()
        if cues:
            versions = {memory.id: memory.version for memory in batch}
            wanted = [
                {"id": key, "version": versions[key], "cues": [cue.model_dump(mode="json") for cue in texts]}
                for key, texts in cues.items()
            ]
            done = await self._client.call(ADD_CUES, {"tenant": self._tenant, "memories": wanted}, budget=WRITE_BUDGET)
            added = done["added"]
            report.enriched += len(added)
            report.cues += sum(len(cues[key]) for key in added)
        report.left += len(batch) - len(added)
        advance(len(batch))
        if self._limits.wrote is not None:
            await self._limits.wrote(len(added), report.input_tokens + report.output_tokens - before)

    async def _written(self, batch: Sequence[Memory], report: EnrichmentReport) -> dict[str, tuple[Cue, ...]]:
        """Return the cues of a batch; if the answer is unusable, ask about each memory alone."""
        if self._limits.may_ask is not None and (refusal := await self._limits.may_ask()) is not None:
            report.stopped = refusal
            return {}
        try:
            written = await self._writer.write(batch, Deadline.after(CALL_S))
        except ModelError as error:
            log.warning("cues_not_written", memories=len(batch), reason=error.reason)
            if error.reason is not Reason.MODEL_UNPARSEABLE or len(batch) == 1:
                report.failed(error)
                return {}
            alone = [await self._written([memory], report) for memory in batch]
            return {key: cues for one in alone for key, cues in one.items()}
        report.failures = 0
        report.calls += 1
        if written.usage is not None:
            report.input_tokens += written.usage.input_tokens
            report.output_tokens += written.usage.output_tokens
            if self._price is not None:
                spent = self._price.of(written.usage.input_tokens, written.usage.output_tokens)
                report.cost = (report.cost or 0.0) + spent
        return dict(written.cues)


def needs_cues(memory: Memory, now: datetime, *, redo: str | None = None) -> bool:
    """Return whether a valid memory has neither given cues nor some of a model; with `redo`, of this prompt."""
    if is_superseded(memory, now) or (memory.valid_until is not None and memory.valid_until <= now):
        return False
    by_model = [cue for cue in memory.cues if cue.origin is CueOrigin.MODEL]
    if by_model:
        return redo is not None and any(cue.prompt != redo for cue in by_model)
    return not any(cue.origin is CueOrigin.GIVEN for cue in memory.cues)


async def _waves(memories: Sequence[Memory], at_once: int) -> AsyncIterator[list[list[Memory]]]:
    """Yield the batches to write at the same time."""
    for wave in batches(memories, at_once * MEMORIES_PER_CALL):
        yield list(batches(wave, MEMORIES_PER_CALL))
