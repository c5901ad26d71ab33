"""What `setup` does to the service: start it, unless it runs, and tell a service manager to keep it running."""

from dataclasses import dataclass
from pathlib import Path

import typer

from worker.adapters.local.service_managers import ManagedService
from worker.bootstrap.embedded import embedded_is_up
from worker.cli.background import halt, health_of, launch
from worker.cli.output import show_verbatim, warn
from worker.cli.supervision import Supervisor, managed_service, possible_supervisor, secrets_left_out, supervisor_of
from worker.settings.injection import Settings


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """`supervisor` is told to keep the service running; `former` did so until now and is not to do so any more."""

    running: bool
    supervisor: Supervisor | None
    managed: ManagedService | None
    former: Supervisor | None

    @property
    def definition(self) -> str:
        return (
            "" if self.supervisor is None or self.managed is None else self.supervisor.manager.definition(self.managed)
        )

    @property
    def file(self) -> Path | None:
        """Return the service manager's file, if it has to be written."""
        return (
            self.supervisor.file
            if self.supervisor is not None and _text(self.supervisor.file) != self.definition
            else None
        )

    @property
    def changes(self) -> bool:
        return self.file is not None or not self.running

    def show(self, home: Path) -> None:
        """Print what will be done."""
        title = self.supervisor.title if self.supervisor is not None else ""
        if self.former is not None:
            show_verbatim(f"- stop the service, and delete {self.former.file}")
        if self.file is not None:
            show_verbatim(f"- write {self.file}, so that {title} keeps the service running:")
            show_verbatim("\n".join(f"+{line}" for line in self.definition.splitlines()))
        if not self.running:
            show_verbatim(f"- start the service {f'with {title}' if title else 'in the background'} on {home}")
        elif self.file is not None:
            show_verbatim(
                f"- let the running service go on; {title} starts it from the next login or `meeseeks restart` on"
            )

    def apply(self, context: typer.Context, settings: Settings) -> int:
        """Do it, and return the id of the service's process."""
        if self.former is not None:
            dismiss(self.former, settings)
        if self.supervisor is not None and self.managed is not None and self.file is not None:
            self.supervisor.manager.install(self.managed)
        return int((health_of(settings) if self.running else launch(context, settings))["pid"])


def plan_service(context: typer.Context, settings: Settings, *, background: bool) -> ServicePlan:
    """Look at what is there. Warn of secrets that the service would not get."""
    supervisor = None if background else possible_supervisor(settings)
    former = supervisor_of(settings) if background else None
    managed = None if supervisor is None else managed_service(context.obj, settings)
    if managed is not None and (left_out := secrets_left_out(settings)):
        warn(
            f"the service does not get {', '.join(left_out)}, because the file that starts it would show it; put a"
            " model's key into a settings file (model_api_key of [service]) and name that with --config"
        )
    return ServicePlan(former is None and embedded_is_up(settings.service), supervisor, managed, former)


def dismiss(supervisor: Supervisor, settings: Settings) -> None:
    """Stop the service and delete the file that starts it."""
    if embedded_is_up(settings.service):
        halt(settings)
    supervisor.stop()
    supervisor.remove()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None
