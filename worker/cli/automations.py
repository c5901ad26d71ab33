"""Commands about automations: what an orchestrator runs at its hook points."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from hooks.automations import (
    Automation,
    AutomationError,
    AutomationRunner,
    AutomationStatus,
    HookOutcome,
    HookPoint,
    Kind,
    Lifetime,
    Registry,
    RunStatus,
)
from hooks.automations.model import DEFAULT_POSITION, DEFAULT_TIMEOUT_MS
from hooks.automations.registry import FILE_NAME

from .options import AsJson, settings_of
from .output import fail, print_json, say, show, table

BACKGROUND_S = 60.0
"""Most seconds that a run by hand waits for automations that an orchestrator would not wait for."""

T = TypeVar("T")

Name = Annotated[str, typer.Argument(help="Its name.")]
Point = Annotated[
    str, typer.Argument(metavar="HOOK_POINT", help=" or ".join(f"`{point}`" for point in HookPoint) + ".")
]

automations = typer.Typer(no_args_is_help=True, help="What an orchestrator runs at its hook points.")


@automations.command("list")
def list_automations(context: typer.Context, as_json: AsJson = False) -> None:
    """List every automation, in the order in which they run."""
    found = _do(context, as_json, Registry.all)
    if as_json:
        print_json({"automations": [asdict(automation) for automation in found]})
        return
    columns = ["name", "hook point", "status", "mode", "blocking", "ms", "position", "runs"]
    show(table(None, columns, [_row(automation) for automation in found]))


@automations.command("show")
def show_automation(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Show one automation with everything that is known of it."""
    _tell(_do(context, as_json, lambda registry: registry.get(name)), as_json)


@automations.command()
def add(
    context: typer.Context,
    name: Name,
    script: Annotated[Path | None, typer.Option(help="The program to run; it must be executable.")] = None,
    entry: Annotated[str | None, typer.Option(help="Instead of a program: `module:name` in Python.")] = None,
    hook_point: Annotated[str, typer.Option(help="Where it runs.")] = HookPoint.PRE_EXECUTION.value,
    background: Annotated[bool, typer.Option("--background", help="The orchestrator does not wait for it.")] = False,
    timeout_ms: Annotated[int, typer.Option(help="Most milliseconds that it may take.")] = DEFAULT_TIMEOUT_MS,
    mode: Annotated[
        Lifetime, typer.Option(help="Whether its folder, or its object in Python, is kept from run to run.")
    ] = Lifetime.PERSISTENT,
    workspace: Annotated[Path | None, typer.Option(help="Folder that it works in; made when it is missing.")] = None,
    position: Annotated[int, typer.Option(help="The lower, the earlier it runs.")] = DEFAULT_POSITION,
    disabled: Annotated[bool, typer.Option("--disabled", help="Register it, and do not run it yet.")] = False,
    as_json: AsJson = False,
) -> None:
    """Register an automation: a program that reads the event as JSON and prints JSON, or an entry in Python."""
    if (script is None) == (entry is None):
        fail("say either --script PATH or --entry MODULE:NAME", as_json=as_json)
    automation = Automation(
        name,
        entry or _program(script, as_json),
        hook_point,
        mode,
        AutomationStatus.DISABLED if disabled else AutomationStatus.ACTIVE,
        not background,
        Kind.PYTHON if entry else Kind.SCRIPT,
        str(workspace.expanduser().absolute()) if workspace else None,
        timeout_ms,
        position,
    )
    _tell(_do(context, as_json, lambda registry: registry.add(automation)), as_json)


@automations.command()
def enable(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Let an automation run from now on."""
    _tell(_do(context, as_json, lambda registry: registry.set_status(name, AutomationStatus.ACTIVE)), as_json)


@automations.command()
def disable(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Do not let an automation run until it is enabled again."""
    _tell(_do(context, as_json, lambda registry: registry.set_status(name, AutomationStatus.DISABLED)), as_json)


@automations.command()
def remove(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """Take an automation out of the registry; its program and its folder stay where they are."""
    removed = _do(context, as_json, lambda registry: registry.remove(name))
    print_json({"removed": asdict(removed)}) if as_json else say(f"removed: {removed.name}")


@automations.command("run")
def run_automations(
    context: typer.Context,
    hook_point: Point,
    event: Annotated[str, typer.Option(help="The event, a JSON object; - reads standard input.")] = "{}",
    message: Annotated[str | None, typer.Option(help="The event's `message`.")] = None,
    session: Annotated[str, typer.Option(help="The event's `session_id`, where it has none.")] = "manual",
    only: Annotated[str | None, typer.Option(help="Run this automation alone.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run the automations of a hook point by hand, as an orchestrator would, and show what each of them did."""
    given = _event(sys.stdin.read() if event == "-" else event, as_json)
    given = {"session_id": session, **given, **({} if message is None else {"message": message})}
    if hook_point not in set(HookPoint):
        fail(f"{hook_point!r} is no hook point; there are {', '.join(HookPoint)}", as_json=as_json)
    if only is not None:
        _do(context, as_json, lambda registry: registry.get(only))
    service = settings_of(context, as_json=as_json).service
    os.environ["MEESEEKS_DATA_DIR"] = str(service.home)
    if service.redis_url is not None:
        os.environ["MEESEEKS_REDIS_URL"] = service.redis_url
    outcome = asyncio.run(_run(Registry(service.home / FILE_NAME), hook_point, given, only))
    print_json(outcome.as_dict()) if as_json else _print(outcome)
    if outcome.fault or any(run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT) for run in outcome.runs):
        raise typer.Exit(1)


async def _run(registry: Registry, hook_point: str, event: dict[str, Any], only: str | None) -> HookOutcome:
    async with AutomationRunner(registry) as runner:
        outcome = await runner.run(hook_point, event, only=only)
        await runner.drain(BACKGROUND_S)
        return outcome


def _do(context: typer.Context, as_json: bool, work: Callable[[Registry], T]) -> T:
    """Work with the registry of the data folder; what it refuses ends the command with its message."""
    try:
        return work(Registry(settings_of(context, as_json=as_json).service.home / FILE_NAME))
    except AutomationError as error:
        fail(str(error), as_json=as_json)


def _program(script: Path | None, as_json: bool) -> str:
    """The absolute path of a program that can be run; anything else ends the command."""
    path = Path() if script is None else script.expanduser().absolute()
    if not path.is_file():
        fail(f"there is no file {path}", as_json=as_json)
    if not os.access(path, os.X_OK):
        fail(
            f"{path} is not executable; begin it with a line such as #!/usr/bin/env python3 and chmod +x it",
            as_json=as_json,
        )
    return str(path)


def _event(text: str, as_json: bool) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"the event is not JSON: {error}", as_json=as_json)
    if not isinstance(event, dict):
        fail(
            'the event has to be a JSON object such as {"session_id": "s1", "message": "Plan the dinner"}',
            as_json=as_json,
        )
    return event


def _row(automation: Automation) -> list[Any]:
    blocking = "yes" if automation.blocking else "no"
    place = [automation.name, automation.hook_point, automation.status, automation.mode, blocking]
    return [*place, automation.timeout_ms, automation.position, automation.script_path]


def _tell(automation: Automation, as_json: bool) -> None:
    fields = asdict(automation)
    if as_json:
        print_json(fields)
    else:
        show(table(None, ["", ""], [[name.replace("_", " "), value] for name, value in fields.items()]))


def _print(outcome: HookOutcome) -> None:
    if outcome.fault:
        say(outcome.fault)
    rows = [[run.name, run.status, f"{run.elapsed_ms:.0f}", run.detail] for run in outcome.runs]
    show(table(None, ["name", "status", "ms", "why"], rows))
    for name, value in outcome.enrichment.items():
        say(f"{name}:\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)}")
