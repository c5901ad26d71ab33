"""`meeseeks hosts install` and `uninstall`: add the hooks to a host's settings file and remove them."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks.protocol.wire import stored_user
from worker.cli.options import settings_of
from worker.cli.output import printed_as_json, say, show_verbatim, warn
from worker.cli.stored_user import difference, store_user
from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS
from worker.domain.errors import SettingsError
from worker.hosts import HOSTS, HostProfile
from worker.operations.hosts import profile_of

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
    snippet,
)

HostName = Annotated[str, typer.Argument(metavar="HOST", help=f"One of {', '.join(sorted(HOSTS))}.")]
InProject = Annotated[bool, typer.Option("--project", help="Use the project's settings file in this folder.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change without making it.")]


def install(
    context: typer.Context,
    host: HostName,
    project: InProject = False,
    http: Annotated[
        bool,
        typer.Option("--http/--command", help="Make the host use HTTP instead of a command."),
    ] = False,
    url: Annotated[str | None, typer.Option(help="Address of the HTTP service; implies --http.")] = None,
    deadline_ms: Annotated[
        int, typer.Option(min=200, max=60_000, help="Time limit of a hook in milliseconds.")
    ] = DEFAULT_HOOK_DEADLINE_MS,
    user: Annotated[
        str | None,
        typer.Option(help="Store whose memories hosts, MCP servers and commands on this machine use."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Install even if already installed elsewhere.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Add the hooks to a host's settings file, or print the snippet to paste. Safe to run again."""
    service = settings_of(context).service
    environment = HostEnvironment(Path.home(), Path.cwd())
    profile = profile_of(host)
    if user is not None and not dry_run:
        store_user(service.home, user)
    stored = user or stored_user(str(service.home.absolute()))
    if warning := difference(service.home, os.environ.get("MEESEEKS_USER"), "MEESEEKS_USER"):
        warn(warning)
    if profile.settings is None:
        _print_snippet(profile, snippet(profile, service))
        return
    kind = handler_kind(profile, service, url=url, http=http, deadline_ms=deadline_ms, project=project, user=stored)
    file = environment.target(profile.settings, project=project)
    if not force:
        _refuse_second_copy(profile, environment, file.path)
    change = plan_install(profile, file, kind)
    if change.changes and not dry_run:
        apply_install(change, profile)
    _print(profile, change, dry_run=dry_run, done="installed", unchanged="already installed")


def uninstall(context: typer.Context, host: HostName, project: InProject = False, dry_run: DryRun = False) -> None:
    """Remove the hooks from a host's settings file and restore it as it was."""
    settings_of(context)
    environment = HostEnvironment(Path.home(), Path.cwd())
    profile = profile_of(host)
    if profile.settings is None:
        raise SettingsError(f"{profile.title} has no settings file; remove the pasted snippet manually")
    change = plan_uninstall(profile, environment.target(profile.settings, project=project))
    if change.changes and not dry_run:
        apply_uninstall(change)
    _print(profile, change, dry_run=dry_run, done="uninstalled", unchanged="not installed")


def _refuse_second_copy(host: HostProfile, environment: HostEnvironment, path: Path) -> None:
    """Raise `SettingsError` if the hooks are installed elsewhere: two copies inject every memory twice."""
    copies = [str(file.path) for file in installed(host, environment) if file.path.resolve() != path.resolve()]
    copies += plugins(host, environment)
    if copies:
        raise SettingsError(
            f"the hooks of {host.title} are already installed: {'; '.join(copies)}. A second copy would inject"
            " everything twice; uninstall or disable the other one first, or use --force"
        )


def _print_snippet(host: HostProfile, paste: str) -> None:
    if not printed_as_json({"host": host.name, "changed": False, "paste": paste}):
        say(f"{host.title} has no settings file. Add this to its scripts:\n")
        show_verbatim(paste)


def _print(host: HostProfile, change: SettingsFileChange, *, dry_run: bool, done: str, unchanged: str) -> None:
    path, note = str(change.file.path), host.settings.note if host.settings else ""
    fields: dict[str, Any] = {"host": host.name, "path": path, "changed": change.changes and not dry_run}
    if printed_as_json({**fields, "diff": change.diff(), "backup": _backup(change), "note": note or None}):
        return
    if not change.changes:
        say(f"{unchanged}: {path}")
        return
    if dry_run:
        show_verbatim(change.diff().rstrip("\n"))
        return
    say(f"{done}: {path}")
    if _backup(change):
        say(f"backup: {_backup(change)}")
    if done == "installed":
        if note:
            say(note)
        say(f"try it: meeseeks doctor {host.name}")


def _backup(change: SettingsFileChange) -> str | None:
    return str(change.file.backup) if change.file.backup.exists() else None
