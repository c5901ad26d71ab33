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
from worker.hosts import HOSTS, HostProfile, profile_of

from .host_changes import HostChange, SettingsFileChange, plan_install, plan_uninstall
from .host_setup import HostEnvironment, handler_kind, installed, mcp_entry, plugins, snippet

HostName = Annotated[str, typer.Argument(metavar="HOST", help=f"One of {', '.join(sorted(HOSTS))}.")]
InProject = Annotated[bool, typer.Option("--project", help="Use the project's settings file in this folder.")]
WithMcp = Annotated[
    bool, typer.Option("--mcp/--no-mcp", help="Add memory as MCP tools, too, where the host has a place.")
]
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
    mcp: WithMcp = True,
    force: Annotated[bool, typer.Option("--force", help="Install even if already installed elsewhere.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Add the hooks and the MCP server to a host's settings, or print the snippet to paste. Safe to run again."""
    settings = settings_of(context)
    service = settings.service
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
    if not force:
        _refuse_second_copy(profile, environment, environment.target(profile.settings, project=project).path)
    entry = mcp_entry(context.obj, settings, url=url, http=http, project=project, user=stored) if mcp else None
    change = plan_install(profile, environment, kind, entry, project=project)
    if not dry_run:
        change.apply_install()
    _print(change, dry_run=dry_run, done="installed", unchanged="already installed")


def uninstall(context: typer.Context, host: HostName, project: InProject = False, dry_run: DryRun = False) -> None:
    """Remove the hooks and the MCP server from a host's settings and restore them as they were."""
    settings_of(context)
    environment = HostEnvironment(Path.home(), Path.cwd())
    profile = profile_of(host)
    if profile.settings is None:
        raise SettingsError(f"{profile.title} has no settings file; remove the pasted snippet manually")
    change = plan_uninstall(profile, environment, project=project)
    if not dry_run:
        change.apply_uninstall()
    _print(change, dry_run=dry_run, done="uninstalled", unchanged="not installed")


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


def _print(change: HostChange, *, dry_run: bool, done: str, unchanged: str) -> None:
    host, note = change.host, change.host.settings.note if change.host.settings else ""
    fields = _fields(change.hooks, dry_run=dry_run)
    mcp = None if change.mcp is None else _fields(change.mcp, dry_run=dry_run)
    if printed_as_json({"host": host.name, **fields, "note": note or None, "mcp": mcp}):
        return
    if not change.changed:
        say(f"{unchanged}: {change.hooks.file.path}")
        return
    for file in change.changed:
        _print_file(file, dry_run=dry_run, done=done)
    if done == "installed" and not dry_run:
        if note:
            say(note)
        say(f"try it: meeseeks doctor {host.name}")


def _print_file(change: SettingsFileChange, *, dry_run: bool, done: str) -> None:
    if dry_run:
        show_verbatim(change.diff().rstrip("\n"))
        return
    say(f"{done}: {change.file.path}")
    if _backup(change):
        say(f"backup: {_backup(change)}")


def _fields(change: SettingsFileChange, *, dry_run: bool) -> dict[str, Any]:
    changed = change.changes and not dry_run
    return {"path": str(change.file.path), "changed": changed, "diff": change.diff(), "backup": _backup(change)}


def _backup(change: SettingsFileChange) -> str | None:
    return str(change.file.backup) if change.file.backup.exists() else None
