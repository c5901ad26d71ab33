"""Who changed which saved settings, and taking a change back."""

from enum import StrEnum
from urllib.parse import urlencode

from pydantic import BaseModel, Field
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import KeyName, Reason, Text
from worker.console.app import Console
from worker.console.rendering import Shown, redirect
from worker.console.setting_changes import ChangeRow, change_row
from worker.console.setting_fields import FIELDS, name_of
from worker.console.visits import Visit
from worker.console.words import in_address
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of
from worker.operations.registry import SETTINGS_HISTORY, SETTINGS_UNDO
from worker.operations.statuses import status_of

PATH = "/settings/history"
REFUSALS = frozenset({Reason.CONFLICT, Reason.NOT_FOUND, Reason.BAD_REQUEST})
"""Why a change is not undone; other errors have a page of their own."""


class HistoryQuery(BaseModel):
    """Which changes to list: of one agent, of one setting, or older than a change."""

    agent: KeyName | None = None
    key: Text | None = None
    before: int | None = Field(default=None, ge=1)


class SettingName(BaseModel):
    key: str
    label: str


class HistoryPage(BaseModel):
    """The changes, newest first; `notice` says why nothing was undone."""

    rows: list[ChangeRow]
    query: HistoryQuery
    keys: list[SettingName]
    cursor: int | None
    notice: str | None = None


class Origin(StrEnum):
    """The page that a change is undone on."""

    HISTORY = "history"
    SETTINGS = "settings"


class Undoing(BaseModel):
    """The change to undo, and what the history was showing."""

    change: int = Field(ge=1)
    on: Origin = Origin.HISTORY
    agent: KeyName | None = None
    key: Text | None = None


def routes(console: Console) -> list[Route]:
    return [*console.page(PATH, show), *console.action("/settings/undo", undo)]


async def show(visit: Visit) -> Shown:
    return await _shown(visit, visit.query(HistoryQuery))


async def undo(visit: Visit) -> Shown | Response:
    """Take a change back and return to where that was asked for; say on the history why it was refused."""
    asked = visit.posted(Undoing)
    query = HistoryQuery(agent=asked.agent, key=asked.key)
    try:
        view = await visit.ask_service(SETTINGS_UNDO, {"change": asked.change, "author": visit.author})
    except MeeseeksError as error:
        if reason_of(error) not in REFUSALS:
            raise
        return await _shown(visit, query, status_of(error), str(error))
    if asked.on is Origin.HISTORY:
        given = urlencode(query.model_dump(exclude_none=True))
        return redirect(f"{PATH}?{given}" if given else PATH)
    return redirect("/settings" if view.agent is None else f"/settings?agent={in_address(view.agent)}")


async def _shown(visit: Visit, query: HistoryQuery, status: int = 200, notice: str | None = None) -> Shown:
    asked = {"agent_id": query.agent, "key": query.key, "before": query.before}
    found = await visit.ask_service(SETTINGS_HISTORY, asked)
    page = HistoryPage(
        rows=[change_row(change) for change in found.changes],
        query=query,
        keys=[SettingName(key=key, label=name_of(key)) for key in sorted(FIELDS)],
        cursor=found.cursor,
        notice=notice,
    )
    return Shown("settings_history.html", "History of settings", page, status)
