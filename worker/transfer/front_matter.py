"""YAML or TOML at the top of a Markdown file. It is untrusted: small, shallow, without aliases, or it is not read."""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from .entries import REST_SKIPPED, Rejected
from .meaning import LIMITS
from .text import TextLine

CLOSINGS = {"---": ("---", "..."), "+++": ("+++",)}
"""The lines that end front matter, by the one that opens it: YAML, or TOML."""

MAX_LINES = 200
MAX_CHARS = 20_000
MAX_DEPTH = 6
MAX_VALUES = 500

_WHOSE = re.compile(
    r"^\s*[\"']?(?:(?:user|agent|app_?id|project|owner|scope|visibility|private|access|valid_?(?:until|to)|invalid_?at|expir"
    rf"|session|thread|conversation|channel|room)\w*|{'|'.join(LIMITS).replace('_', '[_ -]?')})[\"']?\s*[:=]",
    re.IGNORECASE | re.MULTILINE,
)
"""Keys that say who may see the notes, or until when they hold."""


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The values at the top of a file; scalars are texts. `fault` says why the file must not be read."""

    line: int
    values: dict[str, Any]
    fault: str | None = None


class _Unreadable(Exception):
    """The front matter is too complex or not valid; the message says why."""


def front_matter(number: int, lines: Iterator[TextLine], opening: str) -> Iterator[FrontMatter | Rejected]:
    """Read the lines after the `opening` one, up to the closing one.

    Front matter that cannot be read is skipped, and the file too if it may say who can see the notes.
    """
    kept: list[str] = []
    fault = "no closing line"
    for line in lines:
        if line.text.rstrip() in CLOSINGS[opening]:
            fault = ""
            break
        kept.append(line.text)
        if len(kept) > MAX_LINES:
            break
    text = "\n".join(kept)
    try:
        if fault:
            raise _Unreadable(fault)
        yield FrontMatter(number, _values(text) if opening == "---" else _toml_values(text))
    except _Unreadable as error:
        if _WHOSE.search(text):
            yield FrontMatter(number, {}, f"front matter: {error}; it may say who can see these notes; {REST_SKIPPED}")
        else:
            yield Rejected(number, f"front matter: {error}; skipped")


def _values(text: str) -> dict[str, Any]:
    if len(text) > MAX_CHARS:
        raise _Unreadable(f"longer than {MAX_CHARS} characters")
    try:
        _check(text)
        values = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - the base loader makes only texts, lists and tables
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise _Unreadable("not valid YAML") from error
    if values in (None, ""):
        return {}
    if not isinstance(values, dict):
        raise _Unreadable("must consist of keys and values")
    return {str(key).lower(): value for key, value in values.items()}


def _toml_values(text: str) -> dict[str, Any]:
    if len(text) > MAX_CHARS:
        raise _Unreadable(f"longer than {MAX_CHARS} characters")
    try:
        values = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unreadable("not valid TOML") from error
    return {key.lower(): _texts(value, MAX_DEPTH) for key, value in values.items()}


def _texts(value: Any, depth: int) -> Any:
    """Return a value whose scalars are texts, like those of YAML here. Raise `_Unreadable` if it is nested deeply."""
    if not isinstance(value, list | dict):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if depth == 0:
        raise _Unreadable("nested too deeply")
    if isinstance(value, list):
        return [_texts(one, depth - 1) for one in value]
    return {key: _texts(one, depth - 1) for key, one in value.items()}


def _check(text: str) -> None:
    """Raise `_Unreadable` for aliases, deep nesting and many values, before anything is built."""
    depth = values = 0
    for event in yaml.parse(text, yaml.BaseLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _Unreadable("aliases are not read")
        values += isinstance(event, yaml.ScalarEvent)
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            raise _Unreadable("nested too deeply")
        if values > MAX_VALUES:
            raise _Unreadable(f"more than {MAX_VALUES} values")
