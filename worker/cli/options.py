"""Options shared by commands, and helpers that load settings and run a command."""

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
from worker.domain.validation import plain_message
from worker.settings.injection import Settings, load_settings
from worker.settings.service import ServiceSettings

from .output import fail

T = TypeVar("T")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
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


@dataclass(frozen=True, slots=True)
class Common:
    """Options given before the command name: the settings file and values that override it."""

    config: Path | None
    overrides: dict[str, Any]


def common(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="Settings file (default: ./meeseeks.toml if it exists).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded store and Valkey.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Redis or Valkey server instead of the embedded one.")] = None,
    qdrant_url: Annotated[str | None, typer.Option(help="Qdrant server instead of the embedded store.")] = None,
) -> None:
    """Give AI agents relevant memories before each run."""
    context.obj = Common(config, {"data_dir": data_dir, "redis_url": redis_url, "qdrant_url": qdrant_url})


def settings_of(
    context: typer.Context, *, as_json: bool = False, quiet: bool = True, fails: bool = True, **more: Any
) -> Settings:
    """Return the settings. End the command if they are invalid, or raise `MeeseeksError` if `fails` is false."""
    given: Common = context.obj
    try:
        settings = load_settings(given.config, **given.overrides, **more)
    except MeeseeksError as error:
        if not fails:
            raise
        fail(str(error), as_json=as_json)
    service = settings.service
    configure_logging(service.model_copy(update={"log_level": "error"}) if quiet else service)
    return settings


def settings_or_fault(context: typer.Context, *, as_json: bool = False) -> tuple[Settings, str | None]:
    """Return the settings and, if the file is invalid, its error; a running service keeps its last good values."""
    given: Common = context.obj
    try:
        return settings_of(context, as_json=as_json, fails=False), None
    except MeeseeksError as error:
        configure_logging(ServiceSettings(log_level="error"))
        try:
            return Settings.load_service(os.environ, given.config, **given.overrides), str(error)
        except MeeseeksError as worse:
            fail(str(worse), as_json=as_json)


def run(work: Coroutine[Any, Any, T], *, as_json: bool) -> T:
    """Run a command's work; end the command with a message on an expected error."""
    try:
        return asyncio.run(work)
    except MeeseeksError as error:
        fail(str(error), as_json=as_json)
    except ValidationError as error:
        fail(first_fault(error), as_json=as_json)


def first_fault(error: ValidationError) -> str:
    """Return the first fault as `field: message`."""
    fault = error.errors(include_url=False)[0]
    return ": ".join(filter(None, [".".join(map(str, fault["loc"])), plain_message(fault)]))
