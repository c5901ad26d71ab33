"""Three ways to begin, for an empty store."""

from datetime import UTC, datetime

from pydantic import BaseModel
from starlette.routing import Route

from worker.console.app import Console
from worker.console.rendering import Shown
from worker.console.visits import Visit
from worker.console.words import ago
from worker.operations.registry import EXPORT, RECEIPT_PAGE

CONNECT = "meeseeks setup"
"""The command that connects the hosts of this machine."""


class StartPage(BaseModel):
    """Whether there are memories already, and when the last prompt of a connected host came."""

    has_memories: bool
    command: str
    last_prompt: datetime | None
    last_prompt_ago: str | None
    last_agent: str | None


def routes(console: Console) -> list[Route]:
    return console.page("/start", show)


async def show(visit: Visit) -> Shown:
    latest = (await visit.ask(RECEIPT_PAGE, {"limit": 1})).summaries
    last = latest[0] if latest else None
    page = StartPage(
        has_memories=not await is_empty(visit),
        command=CONNECT,
        last_prompt=last.at if last else None,
        last_prompt_ago=ago(datetime.now(UTC) - last.at) if last else None,
        last_agent=last.agent_id if last else None,
    )
    return Shown("start.html", "Begin", page)


async def is_empty(visit: Visit) -> bool:
    """Return whether the visitor's tenant has no memories."""
    return not (await visit.ask(EXPORT, {"limit": 1})).memories
