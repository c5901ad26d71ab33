"""Writes the pages that are made from the code: `python docs/generate.py`. A test fails when one is out of date."""

import sys
from pathlib import Path
from typing import Any

import click
import typer
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from worker.cli import app  # noqa: E402
from worker.settings import ENV_PREFIX, InjectionConfig, ServiceSettings, SettingsModel  # noqa: E402

NOTE = "<!-- Made by docs/generate.py; edit the code instead. -->\n"


def settings_page() -> str:
    """Every key of the settings file, with its default and what it does."""
    return "\n".join(
        [
            "# Settings",
            "",
            NOTE,
            "Settings come from `meeseeks.toml` (in the working folder, or named by `--config` or `MEESEEKS_CONFIG`).",
            "A key that is wrong or unknown is named in an error at start.",
            "",
            "## `[memory_injection]`",
            "",
            "How memories are injected. An `[[agents]]` table with an `id` overrides any of these keys for one agent.",
            "",
            *_rows(InjectionConfig, environment=False),
            "",
            "## `[service]`",
            "",
            "What a process is built from. The variable goes before the file, an option of the command before both.",
            "",
            *_rows(ServiceSettings, environment=True),
            "",
        ]
    )


def _rows(model: type[SettingsModel], *, environment: bool) -> list[str]:
    head = ["| key | default | what it does |", "|---|---|---|"]
    if environment:
        head = ["| key | variable | default | what it does |", "|---|---|---|---|"]
    rows = []
    for name, field in model.model_fields.items():
        variable = f"`{ENV_PREFIX}{name.upper()}` | " if environment else ""
        rows.append(f"| `{name}` | {variable}{_default(field.default)} | {field.description} |")
    return head + rows


def _default(value: Any) -> str:
    if value is None or value is PydanticUndefined:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return "`[" + ", ".join(f'"{entry}"' for entry in value) + "]`"
    return f"`{value}`"


def commands_page() -> str:
    """Every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = ["# Commands", "", NOTE, "Options before the command's name hold for every command:", ""]
    parts += [*_options(group), ""]
    for name in sorted(group.commands):
        command = group.commands[name]
        parts += [f"## `meeseeks {name}`", "", str(command.help), "", *_options(command), ""]
    return "\n".join(parts)


def _options(command: click.Command) -> list[str]:
    rows = ["| | default | |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.name in ("help", "install_completion", "show_completion"):
            continue
        shown = parameter.opts[-1] if parameter.opts[0].startswith("-") else str(parameter.name).upper()
        default = parameter.default
        plain = default is None or callable(default) or default in ([], ()) or parameter.required
        text = getattr(parameter, "help", "") or ""
        value = "" if plain else f"`{getattr(default, 'value', default)}`"
        rows.append(f"| `{shown}` | {value} | {text} |")
    return rows


PAGES = {"settings.md": settings_page, "commands.md": commands_page}

if __name__ == "__main__":
    for file_name, page in PAGES.items():
        (ROOT / "docs" / file_name).write_text(page(), encoding="utf-8")
