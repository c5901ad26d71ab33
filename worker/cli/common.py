"""Options given before the name of a command."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from hooks.protocol.console import VERSION


@dataclass(frozen=True, slots=True)
class Common:
    """The settings file, and values that override it."""

    config: Path | None
    overrides: dict[str, Any]


def _show_version(wanted: bool) -> None:
    if wanted:
        import_module("worker.cli.output").say(f"meeseeks {VERSION}")  # only for this
        raise typer.Exit


def common(
    context: typer.Context,
    config: Annotated[Path | None, typer.Option(help="Settings file (default: ./meeseeks.toml if it exists).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded store and Valkey.")] = None,
    redis_url: Annotated[str | None, typer.Option(help="Redis or Valkey server instead of the embedded one.")] = None,
    qdrant_url: Annotated[str | None, typer.Option(help="Qdrant server instead of the embedded store.")] = None,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    """Give AI agents relevant memories before each run."""
    context.obj = Common(config, {"data_dir": data_dir, "redis_url": redis_url, "qdrant_url": qdrant_url})
