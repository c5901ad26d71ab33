"""Writes the pages and the example settings that are made from the code: `python docs/generate.py`.

A test fails when one is out of date.
"""

import json
import re
import runpy
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import click
import typer
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from worker.api.app import document  # noqa: E402
from worker.cli import app  # noqa: E402
from worker.domain.model_profile import ModelProfile  # noqa: E402
from worker.hosts import HOSTS  # noqa: E402
from worker.hosts.profile import HostProfile, Role  # noqa: E402
from worker.settings.injection import InjectionConfig  # noqa: E402
from worker.settings.service import ENV_PREFIX, ServiceSettings  # noqa: E402

NOTE = "<!-- Made by docs/generate.py; edit the code instead. -->\n"


SECTIONS = {
    "enabled": "When memories are injected",
    "search_limit": "Search",
    "relative_cut": "Choice and budget",
    "strategy": "Who chooses",
    "context_window_depth": "Sessions",
    "receipt_keep": "Receipts and feedback",
}
"""Headings of `[memory_injection]`, each by the key that it begins with."""

REQUEST_FIELDS = {
    "mode": "`mode`, which replaces it",
    "deadline_ms": "`deadline_ms`; the shorter holds",
    "max_chars": "`render.max_chars`; the smaller holds",
    "max_tokens": "`render.max_tokens`; the smaller holds",
}
"""Settings that a single request can narrow or replace."""

INTRODUCTION = """\
Settings come from `meeseeks.toml`: in the working folder, or named by `--config` or `MEESEEKS_CONFIG`.
`meeseeks settings` shows every value in force and where it comes from; [meeseeks.toml](../meeseeks.toml) holds every
key with its default.

## Which value counts

| | `[memory_injection]`, each over the one before | in force |
|---|---|---|
| 1 | the default below | |
| 2 | `[memory_injection]` in the file | within 1 s of a change |
| 3 | saved for all agents: `meeseeks settings set KEY VALUE` | within 1 s, in every worker |
| 4 | the agent's table in the file: `[[agents]]` with an `id` and any of the keys | within 1 s |
| 5 | saved for the agent: `meeseeks settings set KEY VALUE --agent ID` | within 1 s, in every worker |
| 6 | the request itself, for the keys that say so below | |

So what is said for one agent goes before what is said for all, key by key. A request uses the settings of the moment
in which it begins, to its end; its receipt holds them and their `config_version`, a hash of the values that is the same
in every process.

`[service]` is read when a process starts: its variable goes before the file, an option of the command before both. A
change of any key of `[service]` in the file needs a restart, and the log and `meeseeks doctor` say so until then.

## What is wrong is said

At start, everything that is wrong ends the process with file, line, key and a near match:
`meeseeks.toml:4: memory_injection.serch_limit: unknown key; did you mean search_limit?`. While a service runs, a file
or a prompt that is wrong changes nothing: the last good values stay, the log says `change_rejected`, and
`meeseeks doctor` and `meeseeks settings` show what is wrong. A type in `pinned_types` that does not exist is left out
with a warning.

## Saved settings

`meeseeks settings set`, `unset` and `reset` need a running service or its Redis; a value that does not hold is refused
and nothing changes. They are kept in one key of Redis, `meeseeks:settings`, which never expires. If Redis loses it, the
workers put it back; so to get rid of saved settings, use `meeseeks settings reset`, not Redis. Workers on other
machines read their own settings files: only saved settings reach all of them.

Prompt files (`prompts_dir`) are watched like the settings file: [triage](triage.md).
"""


def settings_page() -> str:
    """Every key of the settings file: default, values, what it does, where it can be set."""
    return "\n".join(
        [
            *("# Settings", "", NOTE, INTRODUCTION),
            "## `[memory_injection]`",
            "",
            "How memories are injected. Every key can be set for all agents and for one, in the file or saved;",
            "a change is in force for the next request.",
            *_sections(),
            "",
            "## `[service]`",
            "",
            "What a process is built from; a change needs a restart.",
            "",
            "| key | variable | default | values | what it does |",
            "|---|---|---|---|---|",
            *(
                f"| `{name}` | `{ENV_PREFIX}{name.upper()}` | {_default(field)} | {_range(field)} | {_text(field)} |"
                for name, field in ServiceSettings.model_fields.items()
            ),
            "",
            "## `[[service.models]]`",
            "",
            "What a model can do and where it is, one table for each; what is unset is known from its name. A change",
            "needs a restart. What the names say is in [triage](triage.md).",
            "",
            "| key | default | values | what it does |",
            "|---|---|---|---|",
            *(
                f"| `{name}` | {_default(field)} | {_range(field)} | {_text(field)} |"
                for name, field in ModelProfile.model_fields.items()
            ),
            "",
        ]
    )


def _sections() -> Iterator[str]:
    for name, field in InjectionConfig.model_fields.items():
        if name in SECTIONS:
            yield from (
                "",
                f"### {SECTIONS[name]}",
                "",
                "| key | default | values | what it does |",
                "|---|---|---|---|",
            )
        narrowed = f" Request: {REQUEST_FIELDS[name]}." if name in REQUEST_FIELDS else ""
        yield f"| `{name}` | {_default(field)} | {_range(field)} | {_text(field)}{narrowed} |"


def _text(field: FieldInfo) -> str:
    return str(field.description).replace("|", "\\|")


LONG_DEFAULT = 70


def _default(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined:
        return "unset"
    plain = list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value
    text = json.dumps(plain, ensure_ascii=False) if not isinstance(plain, str) else str(plain)
    if len(text) > LONG_DEFAULT or "|" in text:
        return f"[{len(value)} of them](../meeseeks.toml)"
    return f"`{text}`"


def _range(field: FieldInfo) -> str:
    """The values that a key takes, in words."""
    limits = {type(limit).__name__: limit for limit in field.metadata}
    low, high = limits.get("Ge"), limits.get("Le")
    kind = _kind(field.annotation, next((limit.pattern for limit in field.metadata if _has_pattern(limit)), None))
    if low is not None and high is not None:
        kind += f", {low.ge} to {high.le}"
    elif low is not None:
        kind += f", at least {low.ge}"
    elif "Gt" in limits:
        kind += f", more than {limits['Gt'].gt}" + (f", at most {high.le}" if high is not None else "")
    return kind


def _has_pattern(limit: Any) -> bool:
    return getattr(limit, "pattern", None) is not None


def _kind(annotation: Any, pattern: str | None = None) -> str:
    inner = [part for part in get_args(annotation) if part not in (type(None), Ellipsis)]
    if get_origin(annotation) is tuple:
        return {"text": "list of texts", "regular expression": "list of regular expressions"}.get(
            _kind(inner[0]), f"list of {_kind(inner[0])}"
        )
    if get_origin(annotation) is Annotated:
        return "regular expression"
    if inner:
        return _kind(inner[0], pattern)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "tables"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return ", ".join(f"`{member.value}`" for member in annotation)
    if pattern is not None:
        return ", ".join(f"`{word}`" for word in re.findall(r"\w+", pattern))
    return {bool: "`true`, `false`", int: "whole number", float: "number", Path: "path"}.get(annotation, "text")


def commands_page() -> str:
    """Every command with its arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = ["# Commands", "", NOTE, "Options before the command's name hold for every command:", ""]
    parts += [*_options(group), ""]
    for name, command in _commands(group):
        parts += [f"## `meeseeks {name}`", "", str(command.help), "", *_options(command), ""]
    return "\n".join(parts)


def _commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by its whole name, those of a group after it."""
    for name in sorted(group.commands):
        command = group.commands[name]
        yield prefix + name, command
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix}{name} ")


def _options(command: click.Command) -> list[str]:
    rows = ["| | default | |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.name in ("help", "install_completion", "show_completion"):
            continue
        shown = parameter.opts[-1] if parameter.opts[0].startswith("-") else str(parameter.name).upper()
        default = parameter.default
        plain = default is None or callable(default) or default in ([], ()) or parameter.required
        text = getattr(parameter, "help", "") or ""
        text += f" Variable: `{parameter.envvar}`." if parameter.envvar else ""
        value = "" if plain else f"`{getattr(default, 'value', default)}`"
        rows.append(f"| `{shown}` | {value} | {text} |")
    return rows


def openapi() -> str:
    """What the HTTP service says of itself."""
    return json.dumps(document(), indent=1, sort_keys=True) + "\n"


def hosts_page() -> str:
    """The page about hosts, with the table of what they can do and what is to be pasted."""
    page = (ROOT / "docs" / "hosts.md").read_text(encoding="utf-8")
    page = _filled(page, "hosts", "\n".join(_hosts()))
    page = _filled(page, "nexus", f"```ts\n{HOSTS['nexus'].paste}```")
    return _filled(page, "gobby", f"```python\n{HOSTS['gobby'].paste}```")


def _filled(page: str, name: str, text: str) -> str:
    """The page with `text` between the marks of this name."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, _, rest = page.partition(begin)
    return f"{head}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}"


def _hosts() -> Iterator[str]:
    yield "| host | | gets memory at | keeps the ledger right | the block afterwards | longer output | nothing |"
    yield "|---|---|---|---|---|---|---|"
    for name, host in HOSTS.items():
        gets, follows = _events(host, Role.INJECTS), _events(host, Role.FOLLOWS)
        nothing = json.dumps(dict(host.nothing))
        cells = (f"`{name}`", host.title, gets, follows or "-", host.retention.value, host.limit, f"`{nothing}`")
        yield f"| {' | '.join(cells)} |"


def _events(host: HostProfile, role: Role) -> str:
    return ", ".join(f"`{event.name}`" for event in host.events if event.role is role)


PAGES = {"settings.md": settings_page, "commands.md": commands_page, "openapi.json": openapi, "hosts.md": hosts_page}

if __name__ == "__main__":
    for file_name, page in PAGES.items():
        (ROOT / "docs" / file_name).write_text(page(), encoding="utf-8")
    example = runpy.run_path(str(ROOT / ".ci" / "example_config.py"))["example"]
    (ROOT / "meeseeks.toml").write_text(example(), encoding="utf-8")
