"""`meeseeks settings`: show settings and their origin, and change them while the service runs."""

import asyncio
import json
from typing import Annotated, Any

import typer

from hooks.contract import Reason
from worker.bootstrap.embedded import embedded_redis_url
from worker.domain.errors import QueueError, SettingsError
from worker.domain.operation import AnyOperation
from worker.operations.registry import SETTINGS_GET, SETTINGS_PATCH, SETTINGS_RESET
from worker.settings.injection import InjectionConfig, Settings

from .backend import is_served, local, open_client
from .options import settings_or_fault
from .output import console, printed_as_json, say, show, table

ForAgent = Annotated[str | None, typer.Option("--agent", help="Only for this agent (default: all agents).")]
Key = Annotated[str, typer.Argument(help="Key of `[memory_injection]`.")]

BUDGET_S = 5.0

SHOWN_CHARS = 60
"""Length of a value in the table; `--json` shows all of it."""

settings = typer.Typer(invoke_without_command=True)


@settings.callback()
def show_settings(context: typer.Context, agent: ForAgent = None) -> None:
    """Show all settings and their origin; change saved settings with `set`, `unset` and `reset`."""
    if context.invoked_subcommand is None:
        _do(context, SETTINGS_GET, {"agent_id": agent})


@settings.command("set", context_settings={"ignore_unknown_options": True})
def set_value(
    context: typer.Context,
    key: Key,
    value: Annotated[str, typer.Argument(help="JSON or plain text; a list can be a,b,c.")],
    agent: ForAgent = None,
) -> None:
    """Save a value that overrides the settings file; all workers use it within a second."""
    _do(context, SETTINGS_PATCH, {"agent_id": agent, "values": {key: value_of(key, value)}})


@settings.command("unset")
def unset_value(context: typer.Context, key: Key, agent: ForAgent = None) -> None:
    """Delete a saved value."""
    _do(context, SETTINGS_PATCH, {"agent_id": agent, "unset": [key]})


@settings.command("reset")
def reset(context: typer.Context, agent: ForAgent = None) -> None:
    """Delete all saved values of one agent, or those for all agents; agents keep their own."""
    _do(context, SETTINGS_RESET, {"agent_id": agent})


def value_of(key: str, text: str) -> Any:
    """Return `text` as a value of `key`: JSON or plain text; a list can be a,b,c."""
    try:
        return json.loads(text)
    except ValueError:
        field = InjectionConfig.model_fields.get(key)
        listed = field is not None and isinstance(field.get_default(call_default_factory=True), tuple)
        return [part.strip() for part in text.split(",") if part.strip()] if listed else text


def _do(context: typer.Context, operation: AnyOperation, payload: dict[str, Any]) -> None:
    loaded, fault = settings_or_fault(context)
    view = asyncio.run(_ask(loaded, fault, operation, payload))
    if fault is not None:
        view["faults"].setdefault("file", fault)
    if not printed_as_json(view):
        _print(view)


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
    whose = f"agent {view['agent']}" if view["agent"] else "all agents"
    own = ", with its own values" if view["agent"] and view["memory_injection_overridden"] else ""
    say(f"[memory_injection] for {whose}{own}; version {view['version']}")
    show(_table(view["memory_injection"]))
    if view["agents"] and not view["agent"]:
        say(f"agents with their own values: {', '.join(view['agents'])}")
    console.rule(style="dim")
    say("[service], since the process started")
    show(_table(view["service"]))
    _print_problems(view)


def _table(values: dict[str, dict[str, Any]]) -> Any:
    rows = [[key, _short(entry["value"]), entry["origin"], entry["at"]] for key, entry in values.items()]
    return table(None, ["key", "value", "origin", "where"], rows)


def _short(value: Any) -> str:
    text = "" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _print_problems(view: dict[str, Any]) -> None:
    for source, fault in view["faults"].items():
        say(f"NOT IN FORCE ({source}): {fault}; the last good values stay in use")
    for warning in (*view["warnings"], *view.get("dropped", [])):
        say(f"warning: {warning}")
    if view["needs_restart"]:
        say(f"needs a restart: {', '.join(view['needs_restart'])}")
