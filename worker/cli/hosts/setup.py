"""`meeseeks setup`: from an installed package to an agent with memory, and back."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks.protocol.wire import stored_user
from worker.adapters.local.service_managers import ManagedService
from worker.bootstrap.embedded import embedded_is_up
from worker.cli.background import halt, health_of, launch, own_settings
from worker.cli.checks import Check
from worker.cli.output import fail, printed_as_json, say, show_verbatim, wants_json, warn
from worker.cli.stored_user import store_user
from worker.cli.supervision import Keeper, keeper_of, managed_service, possible_keeper, secrets_left_out
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


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """What happens to the service: it runs already, or is started; `keeper` is told to keep it running.

    `former` kept it running until now and is not to do so any more.
    """

    running: bool
    keeper: Keeper | None
    managed: ManagedService | None
    former: Keeper | None

    @property
    def file_changes(self) -> bool:
        """Return whether the service manager's file has to be written."""
        return self.keeper is not None and self.managed is not None and _text(self.keeper.file) != self.definition

    @property
    def definition(self) -> str:
        return "" if self.keeper is None or self.managed is None else self.keeper.manager.definition(self.managed)

    @property
    def changes(self) -> bool:
        return self.file_changes or not self.running

    def show(self, home: Path) -> None:
        keeper = self.keeper
        if self.former is not None:
            say(f"- stop the service, and delete {self.former.file}")
        if keeper is not None and self.file_changes:
            say(f"- write {keeper.file}, so that {keeper.title} keeps the service running:")
            show_verbatim("\n".join(f"+{line}" for line in self.definition.splitlines()))
        if not self.running:
            say(f"- start the service {f'with {keeper.title}' if keeper else 'in the background'} on {home}")
        elif self.file_changes and keeper is not None:
            say(f"- let the running service go on; {keeper.title} starts it from the next login on")

    def apply(self, context: typer.Context, settings: Settings) -> int:
        """Return the id of the service's process."""
        if self.former is not None:
            _dismiss(self.former, settings)
        if self.keeper is not None and self.managed is not None and self.file_changes:
            self.keeper.manager.install(self.managed)
        return int((health_of(settings) if self.running else launch(context, settings))["pid"])


def setup(
    context: typer.Context,
    hosts: Annotated[
        list[str] | None, typer.Option("--host", help="Connect this host; repeatable. Default: those on this machine.")
    ] = None,
    user: Annotated[str | None, typer.Option(help="Whose memories hosts and commands on this machine use.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before changing anything.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Run the service without systemd or launchd.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Disconnect the hosts and stop the service; memories are kept.")
    ] = False,
) -> None:
    """Start the service and keep it running, connect the hosts on this machine, and test each with a real prompt.

    Shows what it will change before it does. Safe to run again.
    """
    settings = own_settings(context)
    environment = HostEnvironment(Path.home(), Path.cwd())
    if uninstall:
        _uninstall(settings, environment, yes=yes)
        return
    profiles = [profile_of(name) for name in hosts] if hosts else list(_present(environment))
    service = _service_plan(context, settings, background=background)
    plan = _plan(profiles, environment, settings, user)
    if not wants_json():
        service.show(settings.service.home)
        _show(plan)
    _confirm(changes=service.changes or _changes(plan), yes=yes)
    pid = service.apply(context, settings)
    if user is not None:
        store_user(settings.service.home, user)
    for profile, change in plan:
        if change.changes:
            apply_install(change, profile)
    checks = {profile.name: asyncio.run(examine_host(profile, settings, quick=False)) for profile in profiles}
    keeper = keeper_of(settings)
    _report({"pid": pid, "kept_by": keeper.title if keeper else None}, checks, list(_notes(environment)))


def _service_plan(context: typer.Context, settings: Settings, *, background: bool) -> ServicePlan:
    keeper = None if background else possible_keeper(settings)
    former = keeper_of(settings) if background else None
    managed = None if keeper is None else managed_service(context.obj, settings)
    if managed is not None and (left_out := secrets_left_out(settings)):
        warn(
            f"the service does not get {', '.join(left_out)}, because the file that starts it would show it; put the"
            " key into a settings file (model_api_key of [service]) and name that with --config"
        )
    return ServicePlan(former is None and embedded_is_up(settings.service), keeper, managed, former)


def _dismiss(keeper: Keeper, settings: Settings) -> None:
    if embedded_is_up(settings.service):
        halt(settings)
    keeper.stop()
    keeper.remove()


def _uninstall(settings: Settings, environment: HostEnvironment, *, yes: bool) -> None:
    plan: Plan = []
    for profile in HOSTS.values():
        if profile.settings is not None and installed(profile, environment):
            plan.append((profile, plan_uninstall(profile, environment.target(profile.settings, project=False))))
    running, keeper = embedded_is_up(settings.service), keeper_of(settings)
    if not wants_json():
        if running:
            say(f"- stop the service on {settings.service.home}")
        if keeper is not None:
            say(f"- delete {keeper.file}")
        _show(plan)
    _confirm(changes=running or keeper is not None or _changes(plan), yes=yes)
    for _, change in plan:
        if change.changes:
            apply_uninstall(change)
    stopped = halt(settings) if running else None
    if keeper is not None:
        _dismiss(keeper, settings)
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


def _changes(plan: Plan) -> bool:
    return any(change.changes for _, change in plan)


def _show(plan: Plan) -> None:
    for _, change in plan:
        if change.changes:
            say(f"- change {change.file.path}:")
            show_verbatim(change.diff().rstrip("\n"))


def _confirm(*, changes: bool, yes: bool) -> None:
    """Ask what was shown, unless that is not wanted or nothing changes."""
    if yes or not changes:
        return
    if wants_json() or not sys.stdin.isatty():
        fail("use --yes to make these changes without being asked")
    if not typer.confirm("Do this?", default=True):
        raise typer.Exit(1)


def _notes(environment: HostEnvironment) -> Iterator[Path]:
    for folder in dict.fromkeys((environment.home, environment.project)):
        yield from (folder / name for name in NOTES if (folder / name).is_file())


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


def _report(service: dict[str, Any], checks: dict[str, list[Check]], notes: Sequence[Path]) -> None:
    failed = [check for found in checks.values() for check in found if not check.ok]
    fields: dict[str, Any] = {
        **service,
        "hosts": {name: [[one.name, one.ok, one.detail] for one in found] for name, found in checks.items()},
        "works": not failed,
        "notes": [str(path) for path in notes],
    }
    if not printed_as_json(fields):
        kept = f", and {service['kept_by']} keeps it running" if service["kept_by"] else ""
        say(f"the service runs (pid {service['pid']}){kept}")
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
