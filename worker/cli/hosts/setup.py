"""`meeseeks setup`: from an installed package to an agent with memory, and back."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks.protocol.wire import stored_user
from worker.bootstrap.embedded import embedded_is_up
from worker.cli.background import halt, health_of, own_settings
from worker.cli.checks import Check
from worker.cli.output import fail, printed_as_json, say, show_verbatim, wants_json, warn
from worker.cli.running import run_async
from worker.cli.stored_user import store_user
from worker.cli.supervision import supervisor_of
from worker.domain.deadline import DEFAULT_HOOK_DEADLINE_MS
from worker.domain.errors import MeeseeksError, SettingsError
from worker.hosts import HOSTS, HostProfile, profile_of
from worker.settings.injection import Settings
from worker.text.counts import counted

from .host_changes import HostChange, plan_install, plan_uninstall
from .host_doctor import examine_command, examine_host
from .host_setup import HostEnvironment, foreign_folder, handler_kind, mcp_entry, plugins
from .notes import Notes, find_notes, import_notes
from .service_plan import ServicePlan, dismiss, plan_service
from .traces import missing_folders, remember_folders, remove_traces

NO_HOST = "hook"
"""The name of the test if no host is connected."""

Checks = dict[str, list[Check]]


def setup(
    context: typer.Context,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", help="Connect this host; repeatable. Default: those on this machine.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose memories hosts and commands on this machine use.")] = None,
    mcp: Annotated[
        bool, typer.Option("--mcp/--no-mcp", help="Add memory as MCP tools, too, where the host has a place.")
    ] = True,
    wanted: Annotated[
        bool | None, typer.Option("--import/--no-import", help="Import notes for agents without asking, or do not ask.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing anything.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Run the service without systemd or launchd.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Disconnect the hosts and stop the service; memories are kept.")
    ] = False,
    delete_memories: Annotated[
        bool, typer.Option("--delete-memories", help="With --uninstall: delete all memories and other data, too.")
    ] = False,
) -> None:
    """Start the service and keep it running, connect the hosts on this machine, and test each with a real prompt.

    Shows what it will change before it does. Safe to run again.
    """
    settings = own_settings(context)
    environment = HostEnvironment(Path.home(), Path.cwd())
    if delete_memories and (not uninstall or settings.service.qdrant_url):
        fail("--delete-memories needs --uninstall, and the embedded store; delete a Qdrant server's collection there")
    if uninstall:
        _uninstall(settings, environment, yes=yes, everything=delete_memories)
        return
    profiles = [profile_of(name) for name in hosts] if hosts else list(_present(environment))
    plan = list(_plan(context, profiles, environment, settings, user, mcp=mcp))
    service = plan_service(context, settings, background=background)
    notes = find_notes(environment, settings)
    _show_plan(service, plan, settings)
    _confirm(changes=service.changes or any(one.changed for one in plan), yes=yes)
    imports = _wants_import(notes, wanted=wanted, yes=yes)
    pid = _apply(context, service, plan, settings, user)
    imported = import_notes(notes, settings).summary() if imports else None
    supervisor, checks = supervisor_of(settings), run_async(_test(profiles, settings))
    fields = {"pid": pid, "kept_by": supervisor.title if supervisor else None, "imported": imported}
    _report(fields, checks, notes.paths if not imports else [])


def _present(environment: HostEnvironment) -> Iterator[HostProfile]:
    """Yield the hosts that have a folder for their settings in the home folder."""
    for profile in HOSTS.values():
        if profile.settings is None:
            continue
        if environment.target(profile.settings, project=False).path.parent.is_dir():
            yield profile


def _plan(
    context: typer.Context,
    profiles: Sequence[HostProfile],
    environment: HostEnvironment,
    settings: Settings,
    user: str | None,
    *,
    mcp: bool,
) -> Iterator[HostChange]:
    """Yield the changes of each host's files; a plugin brings everything that a host needs."""
    service = settings.service
    stored, deadline = user or stored_user(str(service.home.absolute())), DEFAULT_HOOK_DEADLINE_MS
    entry = mcp_entry(context.obj, settings) if mcp else None
    for profile in profiles:
        if plugins(profile, environment):
            continue
        kind = handler_kind(profile, service, url=None, http=False, deadline_ms=deadline, project=False, user=stored)
        yield plan_install(profile, environment, kind, entry)


def _show_plan(service: ServicePlan, plan: Sequence[HostChange], settings: Settings) -> None:
    if not wants_json():
        service.show(settings.service.home)
        _show(plan)


def _show(plan: Sequence[HostChange]) -> None:
    for change in [change for host in plan for change in host.changed]:
        show_verbatim(f"- change {change.file.path}:")
        show_verbatim(change.diff().rstrip("\n"))


def _confirm(*, changes: bool, yes: bool) -> None:
    """Ask what was shown, unless that is not wanted or nothing changes."""
    if yes or not changes:
        return
    if wants_json() or not sys.stdin.isatty():
        fail("use --yes to make these changes without being asked")
    if not typer.confirm("Do this?", default=True):
        raise typer.Exit(1)


def _wants_import(notes: Notes, *, wanted: bool | None, yes: bool) -> bool:
    """Show what could be imported, and ask unless it was said."""
    if not notes.count or wanted is False:
        return False
    if not wants_json():
        for line in notes.lines():
            show_verbatim(line)
    if wanted or yes or wants_json() or not sys.stdin.isatty():
        return bool(wanted)
    return typer.confirm("Import them?", default=False)


def _apply(
    context: typer.Context, service: ServicePlan, plan: Sequence[HostChange], settings: Settings, user: str | None
) -> int:
    """Make the changes, note which folders did not exist before, and return the id of the service's process."""
    home = settings.service.home
    files = [home / "any", *([service.file] if service.file else [])]
    files += [change.file.path for host in plan for change in host.changed]
    remember_folders(home, missing_folders(files))
    pid = service.apply(context, settings)
    if user is not None:
        store_user(home, user)
    for change in plan:
        change.apply_install()
    return pid


async def _test(profiles: Sequence[HostProfile], settings: Settings) -> Checks:
    """Send a test memory through the hook of each host, or through the command if there is none."""
    if not profiles:
        return {NO_HOST: await examine_command(settings)}
    return {profile.name: await examine_host(profile, settings, quick=False) for profile in profiles}


def _report(service: dict[str, Any], checks: Checks, notes: Sequence[str]) -> None:
    works = all(check.ok for found in checks.values() for check in found)
    hosts = {name: [[one.name, one.ok, one.detail] for one in found] for name, found in checks.items()}
    times = {name: _usual_ms(found) for name, found in checks.items()}
    fields = {"hosts": {name: found for name, found in hosts.items() if name != NO_HOST}, "works": works, "ms": times}
    if not printed_as_json({**service, **fields, "notes": list(notes)}):
        kept = f", and {service['kept_by']} keeps it running" if service["kept_by"] else ""
        say(f"the service runs (pid {service['pid']}){kept}")
        if service["imported"]:
            say(f"imported: {service['imported']}")
        for name, found in checks.items():
            _say_checks(name, found)
        if NO_HOST in checks:
            say("no host was found; `meeseeks hosts install HOST` connects one later")
        if notes:
            say("to import the notes: meeseeks setup --import")
    if not works:
        raise typer.Exit(1)


def _say_checks(name: str, found: Sequence[Check]) -> None:
    """Say that it works, or everything that was found."""
    if all(check.ok for check in found):
        say(f"{name} works: {_usual_ms(found):.0f} ms, and the test memory is deleted")
        return
    for check in found:
        say(f"{name}: {'ok' if check.ok else 'FAILED'}: {check.name}: {check.detail}")


def _usual_ms(found: Sequence[Check]) -> float:
    return round(max((check.ms for check in found if check.ms is not None), default=0.0), 1)


def _uninstall(settings: Settings, environment: HostEnvironment, *, yes: bool, everything: bool) -> None:
    home = settings.service.home
    plan = list(_plan_uninstall(environment, home))
    running, supervisor = embedded_is_up(settings.service), supervisor_of(settings)
    memories = _memories(settings)
    removes = home.is_dir() and (everything or memories == 0)
    if not wants_json():
        if running:
            show_verbatim(f"- stop the service on {home}")
        if supervisor is not None:
            show_verbatim(f"- delete {supervisor.file}")
        if removes:
            held = "all memories" if memories is None else counted(memories) if memories else "no memories"
            show_verbatim(f"- delete the data of the service in {home}, which holds {held}")
        _show(plan)
    _confirm(changes=running or supervisor is not None or bool(plan) or removes, yes=yes)
    for change in plan:
        change.apply_uninstall()
    stopped = halt(settings) if running else None
    if supervisor is not None:
        dismiss(supervisor, settings)
    remove_traces(home, data=removes, everything=everything)
    kept = str(home) if home.exists() else None
    names = [change.host.name for change in plan]
    if not printed_as_json({"disconnected": names, "stopped": stopped, "kept": kept}):
        say(f"disconnected: {', '.join(names) or 'nothing'}{'; the service is stopped' if stopped else ''}")
        show_verbatim(_kept(kept, memories))


def _plan_uninstall(environment: HostEnvironment, home: Path) -> Iterator[HostChange]:
    """Yield the changes that remove what calls the service on `home`; hosts of another service stay connected."""
    for profile in HOSTS.values():
        if (other := foreign_folder(profile, environment, home)) is not None:
            warn(f"{profile.name} stays connected to {other}: meeseeks --data-dir {other} setup --uninstall")
            continue
        try:
            if profile.settings is not None and (change := plan_uninstall(profile, environment)).changed:
                yield change
        except SettingsError as error:
            warn(str(error))


def _memories(settings: Settings) -> int | None:
    """Return the number of memories in the data folder, `None` if it is not known."""
    if not settings.service.home.is_dir():
        return 0
    try:
        return int(health_of(settings)["store"]["points"])
    except MeeseeksError:
        return None


def _kept(kept: str | None, memories: int | None) -> str:
    if kept is None:
        return "nothing is left"
    if memories == 0:
        return f"there are no memories; other files are left in {kept}"
    return f"memories are kept in {kept}; to delete them, use `meeseeks setup --uninstall --delete-memories`"
