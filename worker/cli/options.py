"""Options shared by commands, and helpers that load settings."""

import os
from typing import Annotated, Any

import typer

from hooks.contract import trimmed_name
from hooks.protocol.wire import stored_user
from worker.domain.errors import MeeseeksError
from worker.domain.zones import known_zone
from worker.settings.injection import Settings, load_settings
from worker.settings.service import ServiceSettings

from .common import Common


def checked_name(value: str | None) -> str | None:
    """Trim a name; a blank one is an error."""
    try:
        return None if value is None else trimmed_name(value)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Tenant = Annotated[
    str,
    typer.Option(
        "--tenant",
        callback=checked_name,
        envvar="MEESEEKS_TENANT",
        help="Tenant whose memories to use; tenants are isolated.",
    ),
]


def user_or_stored(context: typer.Context, user: str | None) -> str | None:
    """Return the given user, trimmed, else the one that `meeseeks hosts install --user` stored in the data folder."""
    if user is not None or not isinstance(context.obj, Common):
        return checked_name(user)
    try:
        return stored_user(str(settings_of(context).service.home.absolute())) or None
    except MeeseeksError:
        return None  # the command itself reports what is wrong with the settings


User = Annotated[
    str | None,
    typer.Option(
        "--user",
        envvar="MEESEEKS_USER",
        callback=user_or_stored,
        help="User whose memories to use besides the shared ones; default: as stored by `install --user`.",
    ),
]


def checked_zone(name: str | None) -> str | None:
    """Return the name of a time zone; an unknown one is an error."""
    try:
        return name and known_zone(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Zone = Annotated[
    str | None,
    typer.Option(
        "--tz",
        callback=checked_zone,
        help="Time zone of dates, such as Europe/Zurich; default: the setting `time_zone`.",
    ),
]
Agent = Annotated[
    str,
    typer.Option("--agent", callback=checked_name, envvar="MEESEEKS_AGENT", help="Agent that receives the memories."),
]
Project = Annotated[
    str | None,
    typer.Option(
        "--project",
        callback=checked_name,
        envvar="MEESEEKS_PROJECT",
        help="Project whose memories to use besides the shared ones.",
    ),
]


def settings_of(context: typer.Context, **more: Any) -> Settings:
    """Return the settings. Raise `SettingsError` if they are invalid."""
    given: Common = context.obj
    return load_settings(given.config, **given.overrides, **more)


def portable_options(given: Common, settings: Settings) -> list[str]:
    """Return the options with which a command finds the same settings file and store from any folder.

    URLs come from the options only: those of variables and the settings file may hold passwords.
    """
    service, file = settings.service, settings.file.path
    home = None if service.home == ServiceSettings().home else service.home.absolute()
    urls = {name: at for name, at in given.overrides.items() if name != "data_dir"}
    values = {"config": file.absolute() if file.is_file() else None, "data_dir": home, **urls}
    return [word for name, at in values.items() if at is not None for word in (f"--{name.replace('_', '-')}", str(at))]


def settings_or_fault(context: typer.Context) -> tuple[Settings, str | None]:
    """Return the settings and, if the file is invalid, its error; a running service keeps its last good values."""
    given: Common = context.obj
    try:
        return settings_of(context), None
    except MeeseeksError as error:
        return Settings.load_service(os.environ, given.config, **given.overrides), str(error)
