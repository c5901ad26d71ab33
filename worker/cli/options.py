"""Options shared by commands, and helpers that load settings."""

import os
from typing import Annotated, Any

import typer

from worker.domain.errors import MeeseeksError
from worker.settings.injection import Settings, load_settings

from .common import Common

Tenant = Annotated[
    str, typer.Option("--tenant", envvar="MEESEEKS_TENANT", help="Tenant whose memories to use; tenants are isolated.")
]
User = Annotated[
    str | None,
    typer.Option("--user", envvar="MEESEEKS_USER", help="User whose memories to use besides the shared ones."),
]
Agent = Annotated[str, typer.Option("--agent", envvar="MEESEEKS_AGENT", help="Agent that receives the memories.")]
Project = Annotated[
    str | None,
    typer.Option("--project", envvar="MEESEEKS_PROJECT", help="Project whose memories to use besides the shared ones."),
]


def settings_of(context: typer.Context, **more: Any) -> Settings:
    """Return the settings. Raise `SettingsError` if they are invalid."""
    given: Common = context.obj
    return load_settings(given.config, **given.overrides, **more)


def settings_or_fault(context: typer.Context) -> tuple[Settings, str | None]:
    """Return the settings and, if the file is invalid, its error; a running service keeps its last good values."""
    given: Common = context.obj
    try:
        return settings_of(context), None
    except MeeseeksError as error:
        return Settings.load_service(os.environ, given.config, **given.overrides), str(error)
