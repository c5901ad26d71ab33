"""Options that commands share, and how a command runs."""

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from pydantic import ValidationError

from worker.bootstrap.core import configure_logging
from worker.domain.errors import MeeseeksError
from worker.settings.injection import Settings, load_settings
from worker.settings.service import ServiceSettings

from .output import fail

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Tenant = Annotated[
    str, typer.Option("--tenant", envvar="MEESEEKS_TENANT", help="Whose memories; tenants never see each other's.")
]
User = Annotated[
    str | None,
    typer.Option("--user", envvar="MEESEEKS_USER", help="The user; sees shared memories and this user's own."),
]
Agent = Annotated[str, typer.Option("--agent", envvar="MEESEEKS_AGENT", help="The agent that is to be given memory.")]
Project = Annotated[
    str | None,
    typer.Option("--project", envvar="MEESEEKS_PROJECT", help="The project; sees shared memories and its own."),
]


@dataclass(frozen=True, slots=True)
class Common:
    """What was said before the command's name: where the settings are, and what goes before them."""

    config: Path | None
    overrides: dict[str, Any]


def common(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="Settings file; ./meeseeks.toml where there is one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded store and Valkey.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Redis or Valkey instead of the embedded one.")] = None,
    qdrant_url: Annotated[str | None, typer.Option(help="Qdrant server instead of the embedded store.")] = None,
) -> None:
    """Meeseeks: what an agent ought to remember, before it runs, within three seconds, or nothing."""
    context.obj = Common(config, {"data_dir": data_dir, "redis_url": redis_url, "qdrant_url": qdrant_url})


def settings_of(
    context: typer.Context, *, as_json: bool = False, quiet: bool = True, fails: bool = True, **more: Any
) -> Settings:
    """The settings of this command; ends it with a clear message when they are wrong, or raises if not `fails`."""
    said: Common = context.obj
    try:
        settings = load_settings(said.config, **said.overrides, **more)
    except MeeseeksError as error:
        if not fails:
            raise
        fail(str(error), as_json=as_json)
    service = settings.service
    configure_logging(service.model_copy(update={"log_level": "error"}) if quiet else service)
    return settings


def settings_or_fault(context: typer.Context, *, as_json: bool = False) -> tuple[Settings, str | None]:
    """As `settings_of`; a settings file that is wrong is told, since a running service goes on without the change."""
    said: Common = context.obj
    try:
        return settings_of(context, as_json=as_json, fails=False), None
    except MeeseeksError as error:
        configure_logging(ServiceSettings(log_level="error"))
        try:
            return Settings.load_service(os.environ, said.config, **said.overrides), str(error)
        except MeeseeksError as worse:
            fail(str(worse), as_json=as_json)


def run(work: Coroutine[Any, Any, T], *, as_json: bool) -> T:
    """Run a command's work; an expected failure ends it with its message and exit code 1."""
    try:
        return asyncio.run(work)
    except MeeseeksError as error:
        fail(str(error), as_json=as_json)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        fail(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}", as_json=as_json)
