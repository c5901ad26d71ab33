"""`meeseeks hosts automations`: manage and run the programs that an orchestrator runs at its hook points."""

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

from .options import settings_of
from .output import answer, fail, printed_as_json, say, show, table
from .running import run_async

BACKGROUND_S = 60.0
"""Seconds that a manual run waits for background automations."""

T = TypeVar("T")

Name = Annotated[str, typer.Argument(help="Name of the automation.")]
Point = Annotated[
    str, typer.Argument(metavar="HOOK_POINT", help=f"{' or '.join(f'`{point}`' for point in HookPoint)}.")
]

automations = typer.Typer(no_args_is_help=True, help="Manage the programs that run at an orchestrator's hook points.")


@automations.command("list")
def list_automations(context: typer.Context) -> None:
    """List all automations in the order they run."""
    found = _with_registry(context, Registry.all)
    if printed_as_json({"automations": [asdict(automation) for automation in found]}):
        return
    columns = ["name", "hook point", "status", "mode", "blocking", "timeout ms", "position", "runs"]
    show(table(None, columns, [_row(automation) for automation in found]))


@automations.command("show")
def show_automation(context: typer.Context, name: Name) -> None:
    """Show all details of one automation."""
    _print_automation(_with_registry(context, lambda registry: registry.get(name)))


@automations.command()
def add(
    context: typer.Context,
    name: Name,
    script: Annotated[Path | None, typer.Option(help="Executable program to run.")] = None,
    entry: Annotated[str | None, typer.Option(help="Python function to call instead: `module:name`.")] = None,
    hook_point: Annotated[str, typer.Option(help="Hook point at which it runs.")] = HookPoint.PRE_EXECUTION.value,
    background: Annotated[bool, typer.Option("--background", help="Run without making the orchestrator wait.")] = False,
    timeout_ms: Annotated[int, typer.Option(help="Time limit in milliseconds.")] = DEFAULT_TIMEOUT_MS,
    mode: Annotated[Lifetime, typer.Option(help="Whether to keep its state between runs.")] = Lifetime.PERSISTENT,
    workspace: Annotated[Path | None, typer.Option(help="Working folder; created if missing.")] = None,
    position: Annotated[int, typer.Option(help="Order of execution; lower runs earlier.")] = DEFAULT_POSITION,
    disabled: Annotated[bool, typer.Option("--disabled", help="Register it without enabling it.")] = False,
) -> None:
    """Register an automation: a program that reads and prints JSON, or a Python function."""
    if (script is None) == (entry is None):
        fail("use either --script PATH or --entry MODULE:NAME")
    automation = Automation(
        name,
        entry or _program(script),
        hook_point,
        mode,
        AutomationStatus.DISABLED if disabled else AutomationStatus.ACTIVE,
        not background,
        Kind.PYTHON if entry else Kind.SCRIPT,
        str(workspace.expanduser().absolute()) if workspace else None,
        timeout_ms,
        position,
    )
    _print_automation(_with_registry(context, lambda registry: registry.add(automation)))


@automations.command()
def enable(context: typer.Context, name: Name) -> None:
    """Enable an automation."""
    _print_automation(_with_registry(context, lambda registry: registry.set_status(name, AutomationStatus.ACTIVE)))


@automations.command()
def disable(context: typer.Context, name: Name) -> None:
    """Disable an automation without removing it."""
    _print_automation(_with_registry(context, lambda registry: registry.set_status(name, AutomationStatus.DISABLED)))


@automations.command()
def remove(context: typer.Context, name: Name) -> None:
    """Remove an automation from the registry; its program and folder are kept."""
    removed = _with_registry(context, lambda registry: registry.remove(name))
    answer({"removed": asdict(removed)}, f"removed: {removed.name}")


@automations.command("run")
def run_automations(
    context: typer.Context,
    hook_point: Point,
    event: Annotated[str, typer.Option(help="Event as a JSON object; `-` reads standard input.")] = "{}",
    message: Annotated[str | None, typer.Option(help="`message` of the event.")] = None,
    session: Annotated[str, typer.Option(help="`session_id`, if the event has none.")] = "manual",
    only: Annotated[str | None, typer.Option(help="Run only this automation.")] = None,
) -> None:
    """Run the automations of a hook point manually and show the result of each."""
    given = _event(sys.stdin.read() if event == "-" else event)
    given = {"session_id": session, **given, **({} if message is None else {"message": message})}
    if hook_point not in set(HookPoint):
        fail(f"unknown hook point {hook_point!r}; use {' or '.join(HookPoint)}")
    if only is not None:
        _with_registry(context, lambda registry: registry.get(only))
    service = settings_of(context).service
    os.environ["MEESEEKS_DATA_DIR"] = str(service.home)
    if service.redis_url is not None:
        os.environ["MEESEEKS_REDIS_URL"] = service.redis_url
    outcome = run_async(_run(Registry(service.home / FILE_NAME), hook_point, given, only))
    if not printed_as_json(outcome.as_dict()):
        _print_outcome(outcome)
    if outcome.fault or any(run.status in (RunStatus.FAILED, RunStatus.TIMED_OUT) for run in outcome.runs):
        raise typer.Exit(1)


async def _run(registry: Registry, hook_point: str, event: dict[str, Any], only: str | None) -> HookOutcome:
    async with AutomationRunner(registry) as runner:
        outcome = await runner.run(hook_point, event, only=only)
        await runner.drain(BACKGROUND_S)
        return outcome


def _with_registry(context: typer.Context, work: Callable[[Registry], T]) -> T:
    """Call `work` with the registry of the data folder; end the command if it refuses."""
    try:
        return work(Registry(settings_of(context).service.home / FILE_NAME))
    except AutomationError as error:
        fail(str(error))


def _program(script: Path | None) -> str:
    """Return the absolute path of an executable program; end the command for anything else."""
    path = Path() if script is None else script.expanduser().absolute()
    if not path.is_file():
        fail(f"no such file: {path}")
    if not os.access(path, os.X_OK):
        fail(f"{path} is not executable; run chmod +x on it and start it with #!/usr/bin/env python3")
    return str(path)


def _event(text: str) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError) as error:
        fail(f"the event is not JSON: {error}")
    if not isinstance(event, dict):
        fail('the event must be a JSON object such as {"session_id": "s1", "message": "Plan the dinner"}')
    return event


def _row(automation: Automation) -> list[Any]:
    blocking = "yes" if automation.blocking else "no"
    first = [automation.name, automation.hook_point, automation.status, automation.mode, blocking]
    return [*first, automation.timeout_ms, automation.position, automation.script_path]


def _print_automation(automation: Automation) -> None:
    fields = asdict(automation)
    if not printed_as_json(fields):
        show(table(None, ["", ""], [[name.replace("_", " "), value] for name, value in fields.items()]))


def _print_outcome(outcome: HookOutcome) -> None:
    if outcome.fault:
        say(outcome.fault)
    rows = [[run.name, run.status, f"{run.elapsed_ms:.0f}", run.detail] for run in outcome.runs]
    show(table(None, ["name", "status", "ms", "detail"], rows))
    for name, value in outcome.enrichment.items():
        say(f"{name}:\n{value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)}")
