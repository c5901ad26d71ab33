"""Every command in the documentation and in messages is there, is spelt as the help spells it, and has its options."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

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


def lines_of(page: Path) -> list[list[str]]:
    """Return the words behind `meeseeks` of every line in a block of code."""
    blocks = re.findall(r"(?ms)^```(?:sh|bash|)\n(.*?)^```", page.read_text(encoding="utf-8"))
    joined = "\n".join(blocks).replace("\\\n", " ")
    found = (re.search(r"(?:^|&& |[A-Z_]+=\S+ )meeseeks (.*)$", line) for line in joined.splitlines())
    return [list(command) for line in found if line for command in simple(line[1])]


def simple(line: str) -> Iterator[list[str]]:
    """Yield the words of each `meeseeks` command of a line, up to a pipe or redirection."""
    words: list[str] = []
    for word in [*shlex.split(line, comments=True), "&&"]:
        if word in ("&&", "|", ">", "<", "&", ";"):
            if words:
                yield words
            words = []
        elif not (word == "meeseeks" and not words):
            words.append(word)


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
    assert sum(len(lines_of(page)) for page in PAGES) >= 70
    assert list(simple("hosts install claude-code && meeseeks doctor claude-code # checks it")) == [
        ["hosts", "install", "claude-code"],
        ["doctor", "claude-code"],
    ]
