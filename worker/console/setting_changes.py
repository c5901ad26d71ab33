"""Changes of saved settings in words. Pure."""

from collections.abc import Mapping
from datetime import datetime

from pydantic import BaseModel

from worker.operations.results import SettingsHistoryEntry
from worker.settings.saved import ChangedValue, Interface, KeyChange

from .setting_fields import FIELDS, name_of, text_of

INTERFACES: Mapping[str, str] = {
    Interface.HTTP: "over HTTP",
    Interface.CONSOLE: "in the console",
    Interface.CLI: "in a terminal",
    Interface.QUEUE: "by a program",
}


class ChangedSetting(BaseModel):
    """A setting before and after a change."""

    key: str
    label: str
    old: str
    new: str


class ChangeRow(BaseModel):
    """A change; `whose` is the agent, `None` for all agents. `not_undoable` says why it cannot be undone now."""

    version: int
    at: datetime
    author: str
    place: str
    whose: str | None
    settings: list[ChangedSetting]
    undoes: int | None
    undone_by: int | None
    not_undoable: str | None


def change_row(change: SettingsHistoryEntry) -> ChangeRow:
    return ChangeRow(
        version=change.version,
        at=change.at,
        author=change.author.name,
        place=INTERFACES.get(change.author.via, ""),
        whose=change.agent_id,
        settings=[_changed(one) for one in change.keys],
        undoes=change.undoes,
        undone_by=change.undone_by,
        not_undoable=change.not_undoable,
    )


def _changed(one: KeyChange) -> ChangedSetting:
    return ChangedSetting(key=one.key, label=name_of(one.key), old=_side(one.key, one.old), new=_side(one.key, one.new))


def _side(key: str, side: ChangedValue) -> str:
    """Return a value as its control would hold it, in one line."""
    if side.hidden:
        return "a secret, which is not kept"
    text = text_of(key, side.value) if key in FIELDS else str(side.value)
    shown = ", ".join(text.splitlines()) or "unset"
    return shown if side.saved else f"{shown} (default)"
