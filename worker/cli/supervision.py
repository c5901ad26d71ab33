"""Who keeps the service of this data folder running: systemd or launchd, or nobody if it is a background process."""

import hashlib
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from worker.adapters.local.service_managers import ManagedService, ServiceManager, service_managers
from worker.settings.injection import Settings
from worker.settings.service import ENV_PREFIX, ServiceSettings
from worker.text.masking import holds_secret

from .common import Common
from .options import portable_options

LOG_FILE = "service.log"
TRACING = "OTEL_"
"""What the names of variables that say where traces are sent begin with."""

NAME = "meeseeks"


@dataclass(frozen=True, slots=True)
class Supervisor:
    """A service manager, and the name by which it knows the service of this data folder."""

    manager: ServiceManager
    name: str

    @property
    def title(self) -> str:
        return self.manager.title

    @property
    def file(self) -> Path:
        return self.manager.file(self.name)

    def start(self) -> None:
        self.manager.start(self.name)

    def stop(self) -> None:
        self.manager.stop(self.name)

    def remove(self) -> None:
        self.manager.remove(self.name)


def supervisor_of(settings: Settings) -> Supervisor | None:
    """Return who was told to keep the service running."""
    return next((supervisor for supervisor in _supervisors(settings) if supervisor.file.exists()), None)


def possible_supervisor(settings: Settings) -> Supervisor | None:
    """Return who can be told to keep the service running."""
    return next((supervisor for supervisor in _supervisors(settings) if supervisor.manager.answers()), None)


def _supervisors(settings: Settings) -> list[Supervisor]:
    return [Supervisor(manager, _name(settings.service)) for manager in service_managers(Path.home(), os.environ)]


def _name(service: ServiceSettings) -> str:
    """Return a name of its own for each data folder."""
    if service.home == ServiceSettings().home:
        return NAME
    return f"{NAME}-{hashlib.sha256(os.fsencode(service.home.absolute())).hexdigest()[:8]}"


def service_command(given: Common, settings: Settings) -> list[str]:
    """Return the command that runs the service with the options of this one."""
    return [sys.executable, "-P", "-m", "worker", *portable_options(given, settings), "up"]


def managed_service(given: Common, settings: Settings) -> ManagedService:
    """Return the service of this data folder with the settings of this command, without secrets."""
    file, home = settings.file.path, settings.service.home.absolute()
    variables = {name: value for name, value in _variables(settings).items() if not _is_secret(name, value)}
    return ManagedService(
        name=_name(settings.service),
        command=tuple(service_command(given, settings)),
        variables=variables,
        folder=file.absolute().parent if file.is_file() else home,
        log=log_file(settings).absolute(),
    )


def secrets_left_out(settings: Settings) -> list[str]:
    """Return the variables of this command that the service needs and a service manager must not be told of."""
    left_out = [name for name, value in _variables(settings).items() if _is_secret(name, value)]
    key = (settings.service.model or "").partition("/")[0].upper() + "_API_KEY"
    return [*left_out, *([key] if os.environ.get(key) else [])]


def _variables(settings: Settings) -> Mapping[str, str]:
    """Return the variables that hold settings of the service, whose paths hold in any folder, or are about traces."""
    found: dict[str, str] = {}
    for field in ServiceSettings.model_fields:
        value = os.environ.get(ENV_PREFIX + field.upper())
        if value and field != "data_dir":
            typed = getattr(settings.service, field)
            found[ENV_PREFIX + field.upper()] = str(typed.expanduser().absolute()) if isinstance(typed, Path) else value
    return found | {name: value for name, value in os.environ.items() if name.startswith(TRACING) and value}


def _is_secret(name: str, value: str) -> bool:
    field = ServiceSettings.model_fields.get(name.removeprefix(ENV_PREFIX).lower())
    hidden = name.endswith("_HEADERS") if field is None else not field.repr
    return hidden or holds_secret(value)


def log_file(settings: Settings) -> Path:
    """Return the log of a service that this machine keeps running."""
    return settings.service.home / LOG_FILE
