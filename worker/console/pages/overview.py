"""The first page: whether the service works, and with what; what it did today, and what needs attention."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel
from starlette.routing import Route

from worker.console.activity import HOURS, Activity, activity_of
from worker.console.app import Console
from worker.console.rendering import Shown
from worker.console.request_words import fault_words
from worker.console.visits import Visit
from worker.console.words import counted
from worker.domain.model_profile import ModelState
from worker.domain.receipt_summary import ReceiptSummary
from worker.operations.registry import HEALTH, RECEIPT_PAGE
from worker.operations.requests import MAX_BATCH
from worker.operations.results import HealthResult

from .start import is_empty

MOST_REQUESTS = 2 * MAX_BATCH
"""Requests that the numbers of the page count at most: reading more would make others wait."""


class Need(BaseModel):
    """Something that needs attention, and the command that shows more of it."""

    words: str
    command: str


class OverviewPage(BaseModel):
    """`decides` is what chooses memories; `fault` says why the store cannot be searched as configured.

    `memories` counts those of all tenants, so whoever is bound to one is not told.
    """

    memories: int | None
    engine: str
    decides: str
    embedder: str | None
    fault: str | None
    empty: bool
    needs: list[Need]
    activity: Activity


def routes(console: Console) -> list[Route]:
    return console.page("/", show)


async def show(visit: Visit) -> Shown:
    health = await visit.ask(HEALTH, {})
    now = datetime.now(UTC)
    summaries, complete = await _latest(visit, now - timedelta(hours=HOURS))
    page = OverviewPage(
        memories=None if visit.visitor.tenant else health.store.points,
        engine=health.store.engine,
        decides=health.model or "the built-in relevance model",
        embedder=health.embedder,
        fault=health.store.fault,
        empty=await is_empty(visit),
        needs=list(needs_of(health)),
        activity=activity_of(summaries, now, complete=complete),
    )
    return Shown("overview.html", "Overview", page)


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
    """Return what needs attention, whatever requests say of it."""
    for model in health.models:
        if model.failures:
            yield Need(words=_failing(model), command="meeseeks doctor")
    for what, progress in (("Writing cues", health.cues), ("Reading conversations", health.captures)):
        if progress is not None and progress.failures:
            times = counted(progress.failures, "time", "times")
            why = f": {progress.fault}" if progress.fault else ""
            yield Need(words=f"{what} failed {times} in a row{why}.", command="meeseeks status")


def _failing(model: ModelState) -> str:
    why = f": {fault_words(model.last)}" if model.last else ""
    again = f" It is paused for {model.paused_s:.0f} s." if model.paused_s else ""
    return f"The model {model.name} failed {counted(model.failures, 'time', 'times')} in a row{why}.{again}"
