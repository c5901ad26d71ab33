"""The first page: whether the service works, and with what."""

from pydantic import BaseModel
from starlette.routing import Route

from worker.console.app import Console
from worker.console.rendering import Shown
from worker.console.visits import Visit
from worker.operations.registry import HEALTH

from .start import is_empty


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


def routes(console: Console) -> list[Route]:
    return console.page("/", show)


async def show(visit: Visit) -> Shown:
    health = await visit.ask(HEALTH, {})
    page = OverviewPage(
        memories=None if visit.visitor.tenant else health.store.points,
        engine=health.store.engine,
        decides=health.model or "the built-in relevance model",
        embedder=health.embedder,
        fault=health.store.fault,
        empty=await is_empty(visit),
    )
    return Shown("overview.html", "Overview", page)
