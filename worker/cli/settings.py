"""`meeseeks settings`: show settings and their origin, and change them while the service runs."""

import json
from typing import Annotated, Any

import typer

from hooks.contract import Reason
from worker.bootstrap.embedded import embedded_redis_url
from worker.domain.errors import QueueError, SettingsError
from worker.domain.operation import AnyOperation
from worker.operations.registry import SETTINGS_GET, SETTINGS_HISTORY, SETTINGS_PATCH, SETTINGS_RESET, SETTINGS_UNDO
from worker.settings.file import near_match
from worker.settings.former_keys import RENAMED
from worker.settings.injection import InjectionConfig, Settings
from worker.settings.saved import HIDDEN, MOST_CHANGES, Interface
from worker.text.excerpts import shortened

from .backend import is_served, local, open_client
from .options import settings_or_fault
from .output import fail, printed_as_json, rule, say, show, table
from .running import run_async

ForAgent = Annotated[str | None, typer.Option("--agent", help="Only for this agent (default: all agents).")]
Key = Annotated[str, typer.Argument(help="Key of `[memory_injection]`.")]

IfVersion = Annotated[
    int | None,
    typer.Option("--if-version", min=0, help="Refuse if anything was saved since this `saved_version` (see --json)."),
]

BUDGET_S = 5.0

BY_COMMAND = {"via": Interface.CLI.value}

SHOWN_CHARS = 60
"""Length of a value in the table; `--json` shows all of it."""

settings = typer.Typer(invoke_without_command=True)


@settings.callback()
def show_settings(context: typer.Context, agent: ForAgent = None) -> None:
    """Show all settings and their origin; change saved settings with `set`, `unset`, `reset` and `undo`."""
    if context.invoked_subcommand is None:
        view = _view(context, SETTINGS_GET, {"agent_id": agent})
        if not printed_as_json(view):
            _print(view)


@settings.command("get")
def get_value(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="Key of `[memory_injection]` or `[service]`.")],
    agent: ForAgent = None,
) -> None:
    """Show the value of one key in force, and its origin."""
    view = _view(context, SETTINGS_GET, {"agent_id": agent})
    entry = _entry(view, key)
    if entry is None:
        near = near_match(key, [*view["memory_injection"], *view["service"]])
        fail(f"{key}: unknown key{near or '; `meeseeks settings` lists all of them'}")
    if not printed_as_json({"key": key, **entry}):
        say(_line(key, entry))


@settings.command("set", context_settings={"ignore_unknown_options": True})
def set_value(
    context: typer.Context,
    key: Key,
    value: Annotated[str, typer.Argument(help="JSON or plain text; a list can be a,b,c.")],
    agent: ForAgent = None,
    if_version: IfVersion = None,
) -> None:
    """Save a value that overrides the settings file; all workers use it within a second."""
    values = {key: value_of(key, value)}
    _change(context, SETTINGS_PATCH, {"agent_id": agent, "values": values, "version": if_version}, key)


@settings.command("unset")
def unset_value(context: typer.Context, key: Key, agent: ForAgent = None, if_version: IfVersion = None) -> None:
    """Delete a saved value."""
    _change(context, SETTINGS_PATCH, {"agent_id": agent, "unset": [key], "version": if_version}, key)


@settings.command("reset")
def reset(context: typer.Context, agent: ForAgent = None, if_version: IfVersion = None) -> None:
    """Delete all saved values of one agent, or those for all agents; agents keep their own."""
    _change(context, SETTINGS_RESET, {"agent_id": agent, "version": if_version})


@settings.command("history")
def history(
    context: typer.Context,
    agent: Annotated[str | None, typer.Option("--agent", help="Only changes for this agent.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only changes of this key.")] = None,
    before: Annotated[int | None, typer.Option("--before", min=1, help="Only changes before this one.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=MOST_CHANGES, help="Maximum number of changes.")] = 20,
) -> None:
    """List who changed which saved settings, newest first."""
    asked = {"agent_id": agent, "key": key, "before": before, "limit": limit}
    loaded, fault = settings_or_fault(context)
    found = run_async(_ask(loaded, fault, SETTINGS_HISTORY, asked))
    if printed_as_json(found):
        return
    if not found["changes"]:
        say("no such change is known" if agent or key or before else "nothing has been saved yet")
        return
    show(table(None, ["change", "at (UTC)", "by", "for", "what"], list(map(_row, found["changes"]))))
    if found["cursor"] is not None:
        say(f"older ones: --before {found['cursor']}")


@settings.command("undo")
def undo(
    context: typer.Context,
    change: Annotated[int, typer.Argument(min=1, help="Number of the change, see `history`.")],
) -> None:
    """Take a change back, unless its values have changed since."""
    view = _view(context, SETTINGS_UNDO, {"change": change, "author": BY_COMMAND})
    if not printed_as_json(view):
        say(f"change {change} is undone, for {_whose(view)}")
        _print_problems(view)


def value_of(key: str, text: str) -> Any:
    """Return `text` as a value of `key`: JSON or plain text; a list can be a,b,c."""
    try:
        return json.loads(text)
    except ValueError:
        field = InjectionConfig.model_fields.get(key)
        listed = field is not None and isinstance(field.get_default(call_default_factory=True), tuple)
        return [part.strip() for part in text.split(",") if part.strip()] if listed else text


def _view(context: typer.Context, operation: AnyOperation, payload: dict[str, Any]) -> dict[str, Any]:
    loaded, fault = settings_or_fault(context)
    view = run_async(_ask(loaded, fault, operation, payload))
    if fault is not None:
        view["faults"].setdefault("file", fault)
    return view


def _change(context: typer.Context, operation: AnyOperation, payload: dict[str, Any], key: str | None = None) -> None:
    """Change saved settings and say in one line what is in force."""
    view = _view(context, operation, {**payload, "author": BY_COMMAND})
    if printed_as_json(view):
        return
    entry = _entry(view, key) if key else None
    say(f"{_line(key, entry)}, for {_whose(view)}" if key and entry else f"nothing saved is left for {_whose(view)}")
    _print_problems(view)


def _row(change: dict[str, Any]) -> list[Any]:
    whose = "all agents" if change["agent_id"] is None else change["agent_id"]
    undone = f"; undone by {change['undone_by']}" if change["undone_by"] else ""
    undoes = f"; undoes {change['undoes']}" if change["undoes"] else ""
    what = "\n".join(f"{one['key']}: {_side(one['old'])} → {_side(one['new'])}" for one in change["keys"])
    author = f"{change['author']['name']}, {change['author']['via']}"
    return [change["version"], change["at"][:19].replace("T", " "), author, whose, what + undoes + undone]


def _side(side: dict[str, Any]) -> str:
    """Return a value of a change as text."""
    text = HIDDEN if side["hidden"] else _short(side["value"]) or "unset"
    return text if side["saved"] else f"{text} (not saved)"


def _entry(view: dict[str, Any], key: str) -> dict[str, Any] | None:
    key = RENAMED.get(key, key)
    found: dict[str, Any] | None = view["memory_injection"].get(key) or view["service"].get(key)
    return found


def _line(key: str, entry: dict[str, Any]) -> str:
    place = f" at {entry['at']}" if entry["at"] else ""
    return f"{key} = {json.dumps(entry['value'], ensure_ascii=False)} ({entry['origin']}{place})"


def _whose(view: dict[str, Any]) -> str:
    return f"agent {view['agent']}" if view["agent"] else "all agents"


async def _ask(loaded: Settings, fault: str | None, operation: AnyOperation, payload: dict[str, Any]) -> dict[str, Any]:
    """Ask the running service; without a worker, read the file and Redis."""
    url = None
    if is_served(loaded):
        try:
            async with open_client(loaded) as backend:
                return await backend.call(operation, payload, budget=BUDGET_S)
        except QueueError as error:
            if error.reason is not Reason.NO_WORKER:
                raise
        url = loaded.service.redis_url or embedded_redis_url(loaded.service)
    _check_file(fault)
    found: dict[str, Any] = await local().ask_settings(loaded, url, operation, payload, budget=BUDGET_S)
    return found


def _check_file(fault: str | None) -> None:
    """Raise `SettingsError` for an invalid file if no service runs that keeps its last good values."""
    if fault is not None:
        raise SettingsError(fault)


def _print(view: dict[str, Any]) -> None:
    own = ", with its own values" if view["agent"] and view["memory_injection_overridden"] else ""
    say(f"[memory_injection] for {_whose(view)}{own}; version {view['version']}")
    show(_table(view["memory_injection"]))
    if view["agents"] and not view["agent"]:
        say(f"agents with their own values: {', '.join(view['agents'])}")
    rule()
    say("[service], since the process started")
    show(_table(view["service"]))
    _print_problems(view)


def _table(values: dict[str, dict[str, Any]]) -> Any:
    rows = [[key, _short(entry["value"]), entry["origin"], entry["at"]] for key, entry in values.items()]
    return table(None, ["key", "value", "origin", "where"], rows)


def _short(value: Any) -> str:
    text = "" if value is None else json.dumps(value, ensure_ascii=False)
    return shortened(text, SHOWN_CHARS)


def _print_problems(view: dict[str, Any]) -> None:
    for source, fault in view["faults"].items():
        say(f"NOT IN FORCE ({source}): {fault}; the last good values stay in use")
    for warning in (*view["warnings"], *view.get("dropped", [])):
        say(f"warning: {warning}")
    if view["needs_restart"]:
        say(f"needs a restart: {', '.join(view['needs_restart'])}")
