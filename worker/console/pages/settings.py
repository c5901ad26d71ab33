"""The settings of memory injection, for all agents or for one: shown, saved, and reverted."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import BaseModel
from starlette.datastructures import FormData
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import KeyName, Reason
from worker.console.app import Console
from worker.console.errors import PageError
from worker.console.rendering import Shown, redirect
from worker.console.setting_changes import ChangeRow, change_row
from worker.console.setting_fields import (
    FIELDS,
    Control,
    SettingField,
    SettingSection,
    control_of,
    held,
    sections,
    value_of,
)
from worker.console.visits import JSON, Visit
from worker.console.words import in_address
from worker.domain.errors import MeeseeksError, QueueError
from worker.operations.job import reason_of
from worker.operations.registry import SETTINGS_GET, SETTINGS_HISTORY, SETTINGS_PATCH
from worker.operations.results import SettingsResult
from worker.settings.saved import LOCAL

PATH = "/settings"
EVERYTHING = "*"
"""What the button that reverts everything sends."""

LOOKED_THROUGH = 100
"""Newest changes among which the author of a value is looked for."""


class SettingsQuery(BaseModel):
    """Whose settings a page shows: those of one agent, or those of all."""

    agent: KeyName | None = None


class SettingsPage(BaseModel):
    """`agents` are those with their own values; `notice` says why nothing was saved.

    `overrides` of the values are own ones, of which `saved` can be reverted.
    """

    agent: str | None
    version: int
    overrides: int
    saved: int
    of: int
    agents: list[str]
    faults: list[str]
    sections: list[SettingSection]
    last: ChangeRow | None
    notice: str | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """What was typed into controls, why it was refused, and what others saved meanwhile, by key."""

    typed: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    theirs: Mapping[str, str] = field(default_factory=dict)
    theirs_by: Mapping[str, str] = field(default_factory=dict)

    def put_on(self, shown: SettingField) -> SettingField:
        key = shown.key
        more = {"error": self.errors.get(key), "theirs": self.theirs.get(key), "theirs_by": self.theirs_by.get(key)}
        return shown.model_copy(update={"text": self.typed.get(key, shown.text), **more})


NO_MARKS = Marks()


def routes(console: Console) -> list[Route]:
    return [
        *console.page(PATH, show),
        *console.action(PATH, save),
        Route(PATH + "/{agent:path}", console.serving(moved), methods=["GET"]),
    ]


async def show(visit: Visit) -> Shown:
    return await _shown(visit, await _view(visit))


async def moved(visit: Visit) -> Response:
    """Lead from the former address of an agent's page to its present one."""
    agent = visit.request.path_params["agent"]
    if agent.endswith(JSON):
        return redirect(_address(agent.removesuffix(JSON), PATH + JSON))
    return redirect(_address(agent))


async def save(visit: Visit) -> Shown | Response:
    """Save what was changed, unless others changed the same meanwhile; or revert."""
    version = _version(visit)
    view = await _view(visit)
    given = _given(visit.form)
    revert = visit.text("revert")
    was = {key: _held(visit.form, f"was.{key}", key) for key in given}
    changed = {key: text for key, text in given.items() if text != was[key]}
    fields = {one.key: one for section in sections(view) for one in section.fields}
    if revert and revert != EVERYTHING and revert not in fields:
        raise PageError(422, f"{revert}: there is no such setting")
    reverted = set(fields) if revert == EVERYTHING else {revert} if revert else set()
    touched = reverted & set(was) if revert else set(changed)
    now = {key: held(key, fields[key].was) for key in touched}
    theirs = {key: fields[key].was for key in touched if now[key] not in (was[key], given[key])}
    if theirs:
        notice = "Somebody else saved a value meanwhile, so nothing was saved. Save again to replace theirs."
        marks = Marks(changed, theirs=theirs, theirs_by=await _authors(visit, view, version))
        return await _shown(visit, view, 412, notice, marks)
    try:
        await visit.ask_service(SETTINGS_PATCH, {**_payload(view, changed, revert), "author": visit.author})
    except MeeseeksError as error:
        return await _refused(visit, view, changed, error)
    left = {} if revert == EVERYTHING else {key: text for key, text in changed.items() if key != revert}
    if revert and left:
        return await _shown(visit, await _view(visit), 200, "Reverted. What you typed is not saved yet.", Marks(left))
    return redirect(_address(view.agent))


def _version(visit: Visit) -> int:
    """Return the version of the saved settings that the form was made from."""
    text = visit.text("version")
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise PageError(
            422, "The form does not say which settings it shows. Load its page again, and repeat your change."
        )
    return int(text)


async def _authors(visit: Visit, view: SettingsResult, version: int) -> dict[str, str]:
    """Return who changed each key last since a version, where that has a name."""
    found = await visit.ask_service(SETTINGS_HISTORY, {"limit": LOOKED_THROUGH})
    since = [one for one in found.changes if one.version > version and one.agent_id in (None, view.agent)]
    named = {key.key: one.author.name for one in reversed(since) for key in one.keys}
    return {key: name for key, name in named.items() if name != LOCAL}


def _payload(view: SettingsResult, changed: dict[str, str], revert: str) -> dict[str, object]:
    base = {"agent_id": view.agent, "version": view.saved_version}
    if revert == EVERYTHING:
        return {**base, "reset_memory_injection_override": True}
    if revert:
        return {**base, "unset": [revert]}
    return {**base, "values": {key: value_of(key, text) for key, text in changed.items()}}


async def _refused(visit: Visit, view: SettingsResult, changed: dict[str, str], error: MeeseeksError) -> Shown:
    """Return the page with what was typed and why it was refused, at the fields where that is known."""
    reason = reason_of(error)
    if reason is Reason.CONFLICT:
        notice = "Somebody else saved settings at the same moment. Nothing was saved; save again."
        return await _shown(visit, view, 412, notice, Marks(changed))
    if reason is not Reason.BAD_REQUEST:
        raise error
    errors = _errors(view.agent, str(error))
    notice = "Nothing was saved. Correct what is marked." if errors else f"Nothing was saved. {error}"
    return await _shown(visit, view, 422, notice, Marks(changed, errors))


def _errors(agent: str | None, text: str) -> dict[str, str]:
    table = re.escape("memory_injection" if agent is None else f"agents.{agent}")
    found = re.findall(rf"{table}\.(\w+)[^:\n]*: (.*?)(?=; {table}\.|\n|$)", text)
    return {key: why for key, why in found if key in FIELDS}


async def _view(visit: Visit) -> SettingsResult:
    return await visit.ask_service(SETTINGS_GET, {"agent_id": visit.query(SettingsQuery).agent})


def _given(form: FormData) -> dict[str, str]:
    """Return what each control of the form holds; a box without a check sends nothing."""
    kinds = {key: control_of(kind) for key, kind in FIELDS.items() if f"was.{key}" in form}
    found = {}
    for key, kind in kinds.items():
        if kind is Control.TOGGLE:
            found[key] = "true" if form.get(key) else "false"
        elif kind is Control.CHECKS:
            found[key] = "\n".join(part for part in form.getlist(key) if isinstance(part, str))
        else:
            found[key] = _held(form, key, key)
    return found


def _held(form: FormData, name: str, key: str) -> str:
    value = form.get(name)
    return held(key, value if isinstance(value, str) else "")


async def _last(visit: Visit, agent: str | None) -> ChangeRow | None:
    """Return the newest change of what the page shows, if it can be read: the settings are shown in any case."""
    with suppress(QueueError):
        found = await visit.ask_service(SETTINGS_HISTORY, {"agent_id": agent, "shared": agent is None, "limit": 1})
        return change_row(found.changes[0]) if found.changes else None
    return None


async def _shown(
    visit: Visit, view: SettingsResult, status: int = 200, notice: str | None = None, marks: Marks = NO_MARKS
) -> Shown:
    parts = [part.model_copy(update={"fields": [marks.put_on(one) for one in part.fields]}) for part in sections(view)]
    page = SettingsPage(
        agent=view.agent,
        version=view.saved_version,
        overrides=sum(one.own for part in parts for one in part.fields),
        saved=sum(one.overridden for part in parts for one in part.fields),
        of=len(FIELDS),
        agents=sorted(view.agents),
        faults=list(view.faults.values()),
        sections=parts,
        last=await _last(visit, view.agent),
        notice=notice,
    )
    return Shown("settings.html", f"Settings › {view.agent or 'all agents'}", page, status)


def _address(agent: str | None, page: str = PATH) -> str:
    return page if agent is None else f"{page}?agent={in_address(agent)}"
