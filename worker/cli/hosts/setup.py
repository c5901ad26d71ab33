"""`meeseeks setup`: from an installed package to an agent with memory, and back."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks.protocol.wire import stored_user
from worker.bootstrap.embedded import embedded_is_up
from worker.cli.background import halt, health_of, launch, own_settings
from worker.cli.checks import Check
from worker.cli.output import fail, printed_as_json, say, show_verbatim, wants_json
from worker.cli.stored_user import store_user
from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS
from worker.domain.errors import SettingsError
from worker.hosts import HOSTS, HostProfile
from worker.operations.hosts import profile_of
from worker.settings.injection import Settings

from .host_doctor import examine_host
from .host_setup import (
    HostEnvironment,
    SettingsFileChange,
    apply_install,
    apply_uninstall,
    handler_kind,
    installed,
    plan_install,
    plan_uninstall,
    plugins,
)

NOTES = ("CLAUDE.md", "AGENTS.md", ".claude/CLAUDE.md", ".codex/AGENTS.md")
"""Files with notes for agents, in the home folder or in this one."""

Plan = list[tuple[HostProfile, SettingsFileChange]]


def setup(
    context: typer.Context,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", help="Connect this host; repeatable. Default: those on this machine.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose memories hosts and commands on this machine use.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing anything.")] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Disconnect the hosts and stop the service; memories are kept.")
    ] = False,
) -> None:
    """Start the service, connect the hosts on this machine, and test each with a real prompt. Safe to run again."""
    settings = own_settings(context)
    environment = HostEnvironment(Path.home(), Path.cwd())
    if uninstall:
        _uninstall(settings, environment, yes=yes)
        return
    profiles = [profile_of(name) for name in hosts] if hosts else list(_present(environment))
    running = embedded_is_up(settings.service)
    plan = _plan(profiles, environment, settings, user)
    _confirm(plan, [] if running else [f"start the service in the background on {settings.service.home}"], yes=yes)
    service = health_of(settings) if running else launch(context, settings)
    if user is not None:
        store_user(settings.service.home, user)
    for profile, change in plan:
        if change.changes:
            apply_install(change, profile)
    checks = {profile.name: asyncio.run(examine_host(profile, settings, quick=False)) for profile in profiles}
    _report(service["pid"], checks, list(_notes(environment)))


def _uninstall(settings: Settings, environment: HostEnvironment, *, yes: bool) -> None:
    plan: Plan = []
    for profile in HOSTS.values():
        if profile.settings is not None and installed(profile, environment):
            plan.append((profile, plan_uninstall(profile, environment.target(profile.settings, project=False))))
    running = embedded_is_up(settings.service)
    _confirm(plan, [f"stop the service on {settings.service.home}"] if running else [], yes=yes)
    for _, change in plan:
        if change.changes:
            apply_uninstall(change)
    stopped = halt(settings) if running else None
    names = [profile.name for profile, change in plan if change.changes]
    kept = str(settings.service.home)
    if not printed_as_json({"disconnected": names, "stopped": stopped, "kept": kept}):
        say(f"disconnected: {', '.join(names) or 'nothing'}{'; the service is stopped' if stopped else ''}")
        say(f"memories are kept in {kept}; delete this folder to delete them")


def _present(environment: HostEnvironment) -> Iterator[HostProfile]:
    """Yield the hosts that have a folder for their settings in the home folder."""
    for profile in HOSTS.values():
        if profile.settings is None:
            continue
        if environment.target(profile.settings, project=False).path.parent.is_dir():
            yield profile


def _plan(profiles: Sequence[HostProfile], environment: HostEnvironment, settings: Settings, user: str | None) -> Plan:
    """Return the change of each host's settings file; those with a plugin need none."""
    service, plan = settings.service, Plan()
    stored = user or stored_user(str(service.home.absolute()))
    for profile in profiles:
        if profile.settings is None:
            raise SettingsError(f"{profile.title} has no settings file; run `meeseeks hosts install {profile.name}`")
        if plugins(profile, environment):
            continue
        kind = handler_kind(
            profile, service, url=None, http=False, deadline_ms=DEFAULT_HOOK_DEADLINE_MS, project=False, user=stored
        )
        plan.append((profile, plan_install(profile, environment.target(profile.settings, project=False), kind)))
    return plan


def _confirm(plan: Plan, steps: Sequence[str], *, yes: bool) -> None:
    """Show what will be done, and ask unless that is not wanted or nothing changes."""
    changes = [change for _, change in plan if change.changes]
    if not wants_json():
        for step in steps:
            say(f"- {step}")
        for change in changes:
            say(f"- change {change.file.path}:")
            show_verbatim(change.diff().rstrip("\n"))
    if yes or not (steps or changes):
        return
    if wants_json() or not sys.stdin.isatty():
        fail("use --yes to make these changes without being asked")
    if not typer.confirm("Do this?", default=True):
        raise typer.Exit(1)


def _notes(environment: HostEnvironment) -> Iterator[Path]:
    for folder in dict.fromkeys((environment.home, environment.project)):
        yield from (folder / name for name in NOTES if (folder / name).is_file())


def _report(pid: int, checks: dict[str, list[Check]], notes: Sequence[Path]) -> None:
    failed = [check for found in checks.values() for check in found if not check.ok]
    fields: dict[str, Any] = {
        "pid": pid,
        "hosts": {name: [[one.name, one.ok, one.detail] for one in found] for name, found in checks.items()},
        "works": not failed,
        "notes": [str(path) for path in notes],
    }
    if not printed_as_json(fields):
        say(f"the service runs (pid {pid})")
        for name, found in checks.items():
            for check in found:
                say(f"{name}: {'ok' if check.ok else 'FAILED'}: {check.name}: {check.detail}")
            if all(check.ok for check in found):
                say(f"{name} works")
        if not checks:
            say("no host was found; see `meeseeks hosts install --help`, or docs/hosts.md for others")
        for path in notes:
            say(f"notes to import: meeseeks import --dry-run {path}")
    if failed:
        raise typer.Exit(1)
