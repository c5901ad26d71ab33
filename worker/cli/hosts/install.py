"""`meeseeks install` and `uninstall`: a host's settings file with our hooks in it, and as it was before."""

from pathlib import Path
from typing import Annotated, Any

import typer

from worker.cli.options import AsJson, settings_of
from worker.cli.output import fail, print_json, say, show_verbatim
from worker.domain.errors import MeeseeksError, SettingsError
from worker.hosts import HOSTS, HostProfile
from worker.hosts.profile import DEFAULT_HOOK_DEADLINE_MS
from worker.operations.hosts import profile_of

from .host_setup import (
    HostEnvironment,
    SettingsFileChange,
    apply_install,
    apply_uninstall,
    installed,
    plan_install,
    plan_uninstall,
    plugins,
    way_of,
)

HostName = Annotated[str, typer.Argument(metavar="HOST", help=f"One of {', '.join(sorted(HOSTS))}.")]
InProject = Annotated[bool, typer.Option("--project", help="The project's file in this folder, not the user's.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the change, and make none.")]


def install(
    context: typer.Context,
    host: HostName,
    project: InProject = False,
    http: Annotated[bool, typer.Option("--http/--command", help="Let the host call the service over HTTP.")] = False,
    url: Annotated[str | None, typer.Option(help="Address of the HTTP service; means --http.")] = None,
    deadline_ms: Annotated[
        int, typer.Option(min=200, max=60_000, help="Most milliseconds that a hook may take.")
    ] = DEFAULT_HOOK_DEADLINE_MS,
    force: Annotated[bool, typer.Option("--force", help="Even where the hooks are in another place as well.")] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Put the hooks into a host's settings file, or say what to paste where a host has none. May be repeated."""
    service = settings_of(context, as_json=as_json).service
    around = HostEnvironment(Path.home(), Path.cwd())
    try:
        profile = profile_of(host)
        if profile.settings is None:
            _tell_paste(profile, as_json=as_json)
            return
        way = way_of(profile, service, url=url, http=http, deadline_ms=deadline_ms, project=project)
        file = around.target(profile.settings, project=project)
        if not force:
            _refuse_second_copy(profile, around, file.path)
        change = plan_install(profile, file, way)
        if change.changes and not dry_run:
            apply_install(change, profile)
    except MeeseeksError as error:
        fail(str(error), as_json=as_json)
    _tell(profile, change, dry_run=dry_run, as_json=as_json, done="installed", undone="installed already")


def uninstall(
    context: typer.Context,
    host: HostName,
    project: InProject = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Take the hooks out of a host's settings file, which is then as it was before they were put in."""
    settings_of(context, as_json=as_json)
    around = HostEnvironment(Path.home(), Path.cwd())
    try:
        profile = profile_of(host)
        if profile.settings is None:
            raise SettingsError(f"{profile.title} has no settings file: take out what you put in by hand")
        change = plan_uninstall(profile, around.target(profile.settings, project=project))
        if change.changes and not dry_run:
            apply_uninstall(change)
    except MeeseeksError as error:
        fail(str(error), as_json=as_json)
    _tell(profile, change, dry_run=dry_run, as_json=as_json, done="uninstalled", undone="not installed")


def _refuse_second_copy(host: HostProfile, around: HostEnvironment, path: Path) -> None:
    """Two copies of a hook inject twice: each sees the message before the other has counted anything as shown."""
    copies = [str(file.path) for file in installed(host, around) if file.path.resolve() != path.resolve()]
    copies += plugins(host, around)
    if copies:
        raise SettingsError(
            f"the hooks of {host.title} are there already: {'; '.join(copies)}. A second copy would inject everything"
            " twice; uninstall or disable the other one first, or say --force"
        )


def _tell_paste(host: HostProfile, *, as_json: bool) -> None:
    if as_json:
        print_json({"host": host.name, "changed": False, "paste": host.paste})
    else:
        say(f"{host.title} has no settings file that could be written. Put this where its scripts are:\n")
        show_verbatim(host.paste)


def _tell(
    host: HostProfile, change: SettingsFileChange, *, dry_run: bool, as_json: bool, done: str, undone: str
) -> None:
    path, note = str(change.file.path), host.settings.note if host.settings else ""
    if as_json:
        told: dict[str, Any] = {"host": host.name, "path": path, "changed": change.changes and not dry_run}
        told |= {"diff": change.diff(), "backup": _backup(change), "note": note or None}
        print_json(told)
        return
    if not change.changes:
        say(f"{undone}: {path}")
        return
    if dry_run:
        show_verbatim(change.diff().rstrip("\n"))
        return
    say(f"{done}: {path}")
    if _backup(change):
        say(f"as it was before: {_backup(change)}")
    if note and done == "installed":
        say(note)
    if done == "installed":
        say(f"try it: meeseeks doctor {host.name}")


def _backup(change: SettingsFileChange) -> str | None:
    return str(change.file.backup) if change.file.backup.exists() else None
