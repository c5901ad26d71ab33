"""The settings of memory injection, for all agents or for one: shown, saved, and reverted."""

import re

from pydantic import BaseModel
from starlette.datastructures import FormData
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Reason
from worker.console.app import Console
from worker.console.errors import PageError
from worker.console.rendering import Shown, redirect
from worker.console.setting_fields import FIELDS, Control, SettingField, SettingSection, control_of, sections, value_of
from worker.console.visits import Visit
from worker.console.words import in_address
from worker.domain.errors import MeeseeksError
from worker.operations.job import reason_of
from worker.operations.registry import SETTINGS_GET, SETTINGS_PATCH
from worker.operations.results import SettingsResult

PATH = "/settings"
EVERYTHING = "*"
"""What the button that reverts everything sends."""


class SettingsPage(BaseModel):
    """`agents` are those with their own values; `notice` says why nothing was saved."""

    agent: str | None
    version: int
    overrides: int
    of: int
    agents: list[str]
    faults: list[str]
    sections: list[SettingSection]
    notice: str | None = None


def routes(console: Console) -> list[Route]:
    one = PATH + "/{agent}"
    return [
        *console.page(PATH, show),
        *reversed(console.page(one, show)),  # an agent's id would take in .json
        *console.action(PATH, save),
        *console.action(one, save),
    ]


async def show(visit: Visit) -> Shown:
    return _shown(await _view(visit))


async def save(visit: Visit) -> Shown | Response:
    """Save what was changed, unless others changed the same meanwhile; or revert."""
    view = await _view(visit)
    given = _given(visit.form)
    revert = visit.text("revert")
    was = {key: _lines(visit.form.get(f"was.{key}")) for key in given}
    changed = {key: text for key, text in given.items() if text != was[key]}
    fields = {field.key: field for section in sections(view) for field in section.fields}
    if revert and revert != EVERYTHING and revert not in fields:
        raise PageError(422, f"{revert}: there is no such setting")
    reverted = set(fields) if revert == EVERYTHING else {revert} if revert else set()
    touched = reverted & set(was) if revert else set(changed)
    moved = {key for key in touched if fields[key].was != was[key] and fields[key].was != given[key]}
    if moved:
        theirs = {key: fields[key].was for key in moved}
        notice = "Somebody else saved a value meanwhile, so nothing was saved. Save again to replace theirs."
        return _shown(view, 412, notice, changed, theirs=theirs)
    try:
        await visit.ask_service(SETTINGS_PATCH, _payload(view, changed, revert))
    except MeeseeksError as error:
        return _refused(view, changed, error)
    left = {} if revert == EVERYTHING else {key: text for key, text in changed.items() if key != revert}
    if revert and left:
        return _shown(await _view(visit), 200, "Reverted. What you typed is not saved yet.", left)
    return redirect(_path(view.agent))


def _payload(view: SettingsResult, changed: dict[str, str], revert: str) -> dict[str, object]:
    base = {"agent_id": view.agent, "version": view.saved_version}
    if revert == EVERYTHING:
        return {**base, "reset_memory_injection_override": True}
    if revert:
        return {**base, "unset": [revert]}
    return {**base, "values": {key: value_of(key, text) for key, text in changed.items()}}


def _refused(view: SettingsResult, changed: dict[str, str], error: MeeseeksError) -> Shown:
    """Return the page with what was typed and why it was refused, at the fields where that is known."""
    reason = reason_of(error)
    if reason is Reason.CONFLICT:
        notice = "Somebody else saved settings at the same moment. Nothing was saved; save again."
        return _shown(view, 412, notice, changed)
    if reason is not Reason.BAD_REQUEST:
        raise error
    errors = _errors(view.agent, str(error))
    notice = "Nothing was saved. Correct what is marked." if errors else f"Nothing was saved. {error}"
    return _shown(view, 422, notice, changed, errors=errors)


def _errors(agent: str | None, text: str) -> dict[str, str]:
    table = re.escape("memory_injection" if agent is None else f"agents.{agent}")
    found = re.findall(rf"{table}\.(\w+)[^:\n]*: (.*?)(?=; {table}\.|\n|$)", text)
    return {key: why for key, why in found if key in FIELDS}


async def _view(visit: Visit) -> SettingsResult:
    return await visit.ask_service(SETTINGS_GET, {"agent_id": visit.request.path_params.get("agent")})


def _given(form: FormData) -> dict[str, str]:
    """Return what each control of the form holds; a box without a check sends nothing."""
    kinds = {key: control_of(field) for key, field in FIELDS.items() if f"was.{key}" in form}
    found = {}
    for key, kind in kinds.items():
        if kind is Control.TOGGLE:
            found[key] = "true" if form.get(key) else "false"
        elif kind is Control.CHECKS:
            found[key] = "\n".join(part for part in form.getlist(key) if isinstance(part, str))
        else:
            found[key] = _lines(form.get(key))
    return found


def _lines(value: object) -> str:
    text = value if isinstance(value, str) else ""
    return "\n".join(line.rstrip() for line in text.strip().splitlines() if line.strip())


def _shown(
    view: SettingsResult,
    status: int = 200,
    notice: str | None = None,
    typed: dict[str, str] | None = None,
    *,
    errors: dict[str, str] | None = None,
    theirs: dict[str, str] | None = None,
) -> Shown:
    typed, errors, theirs = typed or {}, errors or {}, theirs or {}

    def filled(field: SettingField) -> SettingField:
        key = field.key
        more = {"text": typed.get(key, field.text), "error": errors.get(key), "theirs": theirs.get(key)}
        return field.model_copy(update=more)

    parts = [part.model_copy(update={"fields": [filled(one) for one in part.fields]}) for part in sections(view)]
    page = SettingsPage(
        agent=view.agent,
        version=view.saved_version,
        overrides=sum(field.overridden for part in parts for field in part.fields),
        of=len(FIELDS),
        agents=sorted(view.agents),
        faults=list(view.faults.values()),
        sections=parts,
        notice=notice,
    )
    return Shown("settings.html", f"Settings › {view.agent or 'all agents'}", page, status)


def _path(agent: str | None) -> str:
    return PATH if agent is None else f"{PATH}/{in_address(agent)}"
