"""The `meeseeks` commands that the documentation shows, as words."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path


def lines_of(page: Path) -> list[list[str]]:
    """Return the words behind `meeseeks` of every command in a block of code."""
    blocks = re.findall(r"(?ms)^ *```(\w*)\n(.*?)^ *```", page.read_text(encoding="utf-8"))
    joined = "\n".join(text for language, text in blocks if language in ("", "sh", "bash")).replace("\\\n", " ")
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
