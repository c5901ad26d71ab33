"""The first page: whether the service works, and with what; what it did today, and what needs attention."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel
from starlette.routing import Route

from worker.console.activity import HOURS, Activity, activity_of
from worker.console.app import Console, Handler
from worker.console.parts import Part, parts_of
from worker.console.rendering import Shown
from worker.console.visits import Visit
from worker.console.words import counted
from worker.domain.errors import MeeseeksError
from worker.domain.receipt_summary import ReceiptSummary
from worker.operations.client import QueueLook, QueueState
from worker.operations.registry import HEALTH, RECEIPT_PAGE
from worker.operations.requests import MAX_BATCH
from worker.operations.results import HealthResult

from .start import is_empty

HEALTH_S = 5.0
"""Seconds in which a worker must say how it is."""

MOST_REQUESTS = 2 * MAX_BATCH
"""Requests that the numbers of the page count at most: reading more would make others wait."""


class Need(BaseModel):
    """Something that needs attention, and the command that shows more of it, or mends it."""

    words: str
    command: str
    link: str | None = None


class OverviewPage(BaseModel):
    """`decides` is what chooses memories; `fault` says why the store cannot be searched as configured.

    `memories` counts those of all tenants, so whoever is bound to one is not told. Without a worker, only `needs` and
    `parts` are known.
    """

    works: bool = True
    memories: int | None = None
    engine: str | None = None
    decides: str | None = None
    embedder: str | None = None
    fault: str | None = None
    empty: bool = False
    needs: list[Need]
    parts: list[Part]
    activity: Activity | None = None


def routes(console: Console) -> list[Route]:
    return console.page("/", _showing(console.look))


def _showing(look: QueueLook) -> Handler:
    async def show(visit: Visit) -> Shown:
        health, queue = await asyncio.gather(_health(visit), look())
        return Shown("overview.html", "Overview", await _page(visit, health, queue))

    return show


async def _health(visit: Visit) -> HealthResult | MeeseeksError:
    """Return the health of the service, or why no worker says it."""
    try:
        return await visit.ask(HEALTH, {}, budget=HEALTH_S)
    except MeeseeksError as error:
        return error


async def _page(visit: Visit, health: HealthResult | MeeseeksError, queue: QueueState | None) -> OverviewPage:
    parts = parts_of(health, queue, counts=visit.visitor.tenant is None)
    if isinstance(health, MeeseeksError):
        return OverviewPage(works=False, needs=list(_needs_of_parts(parts)), parts=parts)
    now = datetime.now(UTC)
    summaries, complete = await _latest(visit, now - timedelta(hours=HOURS))
    return OverviewPage(
        memories=None if visit.visitor.tenant else health.store.points,
        engine=health.store.engine,
        decides=health.decides,
        embedder=health.embedder,
        fault=health.store.fault,
        empty=await is_empty(visit),
        needs=[*_needs_of_parts(parts), *needs_of(health)],
        parts=parts,
        activity=activity_of(summaries, now, complete=complete),
    )


def _needs_of_parts(parts: list[Part]) -> Iterator[Need]:
    """Yield the parts that need attention."""
    for part in parts:
        if part.command is not None:
            yield Need(words=f"{part.name}: {part.mark.words}.", command=part.command, link=part.link)


async def _latest(visit: Visit, since: datetime) -> tuple[list[ReceiptSummary], bool]:
    """Return the latest requests, newest first, and whether these are all since then."""
    found: list[ReceiptSummary] = []
    cursor: str | None = None
    while len(found) < MOST_REQUESTS:
        page = await visit.ask(RECEIPT_PAGE, {"limit": MAX_BATCH, "cursor": cursor})
        found += page.summaries
        cursor = page.cursor
        if cursor is None or (found and found[-1].at < since):
            return found, True
    return found, False


def needs_of(health: HealthResult) -> Iterator[Need]:
    """Yield what fails in the background."""
    for what, progress in (("Writing cues", health.cues), ("Reading conversations", health.captures)):
        if progress is not None and progress.failures:
            times = counted(progress.failures, "time", "times")
            why = f": {progress.fault}" if progress.fault else ""
            yield Need(words=f"{what} failed {times} in a row{why}.", command="meeseeks status")
