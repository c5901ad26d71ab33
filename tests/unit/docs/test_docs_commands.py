"""Every command in the documentation and in messages is there, is spelt as the help spells it, and has its options."""

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tests.support.docs_commands import lines_of, simple
from tests.support.paths import ROOT
from worker.cli import app
from worker.cli.commands import HIDDEN

ALL: Any = typer.main.get_command(app).all_loaded()  # type: ignore[attr-defined]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "prompts").rglob("*.md"))]
SOURCES = [path for folder in ("worker", "hooks") for path in sorted((ROOT / folder).rglob("*.py"))]
IN_CONFIGURATIONS = {"mcp"}
"""Earlier spellings that configurations of hosts keep."""

ABOUT_EARLIER_NAMES = {"commands.md", "commands.py"}
PLACEHOLDER = re.compile(r"^(COMMAND|<.*>|\.\.\.|NAME)$")


def leaf(words: list[str]) -> tuple[Any, list[str], list[Any]]:
    """Return the command that words name, the rest of them, and the groups on the way."""
    command, rest, way = ALL, list(words), []
    while rest and rest[0] in getattr(command, "commands", {}):
        way.append(command)
        command = command.commands[rest.pop(0)]
    return command, rest, way


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_can_be_typed_as_it_is_shown(page: Path) -> None:
    for words in lines_of(page):
        command, rest, way = leaf(words)
        assert way, f"{page.name}: there is no command {' '.join(words)}"
        assert not command.hidden or words[0] in IN_CONFIGURATIONS, f"{page.name}: {words} has another name now"
        command.make_context(command.name, rest, resilient_parsing=True)  # raises for options that it has not


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: path.relative_to(ROOT).as_posix())
def test_texts_name_commands_as_the_help_does(path: Path) -> None:
    if path.name in ABOUT_EARLIER_NAMES:
        return
    for name in re.findall(r"\bmeeseeks (?:--[a-z-]+ \S+ )*([a-z][a-z-]*)\b", path.read_text(encoding="utf-8")):
        assert name not in HIDDEN or name in IN_CONFIGURATIONS, f"{path.name}: `meeseeks {name}` is {HIDDEN[name]} now"


def test_the_reader_of_command_lines_finds_them() -> None:
    assert sum(len(lines_of(page)) for page in PAGES) >= 100
    assert list(simple("hosts install claude-code && meeseeks doctor claude-code # checks it")) == [
        ["hosts", "install", "claude-code"],
        ["doctor", "claude-code"],
    ]
