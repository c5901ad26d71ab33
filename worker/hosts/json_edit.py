"""Minimal edits of JSON text that keep everything else byte for byte.

Added values use the indentation of the document. Positions are offsets in the text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from worker.domain.errors import SettingsError

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_EMPTY = re.compile(r"[ \t\r\n]*(\{\s*\}|\[\s*\])[ \t\r\n]*")
_FIRST_INDENT = re.compile(r"^[ \t\r\n]*[{\[][ \t]*(\r?\n)([ \t]+)")

Path = tuple[str, ...]
UNCHANGED = "fix that first, the file was not changed"


@dataclass(frozen=True, slots=True)
class Part:
    """A value in the text; `begin` is the position of its key, if any, and `start` that of the value."""

    begin: int
    start: int
    end: int
    key: str | None = None


def parsed(text: str, name: str) -> dict[str, Any]:
    """Parse a JSON object without duplicate keys; raise `SettingsError` with file and line if it is invalid."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise SettingsError(f"{name}: duplicate key {twice!r}; {UNCHANGED}")
        return found

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except ValueError as error:
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise SettingsError(f"{name}{where}: not valid JSON; {UNCHANGED}") from error
    except RecursionError as error:
        raise SettingsError(f"{name}: nested too deeply; {UNCHANGED}") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{name}: must be a JSON object; {UNCHANGED}")
    return document


def find(text: str, path: Path) -> Part | None:
    """Return the member at `path` of a valid document, or the document itself for an empty path."""
    part = Part(_skip(text, 0), _skip(text, 0), len(text.rstrip()))
    for key in path:
        if text[part.start] != "{":
            return None
        inner = next((member for member in parts(text, part.start) if member.key == key), None)
        if inner is None:
            return None
        part = inner
    return part


def at(text: str, path: Path) -> Part:
    """Return the member at `path`; raise `LookupError` if it does not exist."""
    part = find(text, path)
    if part is None:
        raise LookupError(path)
    return part


def parts(text: str, start: int) -> Iterator[Part]:
    """Iterate over the members of the object or array at `start`."""
    keyed = text[start] == "{"
    position = _skip(text, start + 1)
    while text[position] not in "}]":
        begin, key = position, None
        if keyed:
            key, position = _DECODER.raw_decode(text, position)
            position = _skip(text, _skip(text, position) + 1)
        _, end = _DECODER.raw_decode(text, position)
        yield Part(begin, position, end, key)
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)


def add(text: str, path: Path, value: Any, key: str | None = None) -> str:
    """Append `value` to the array, or add it under `key` to the object, at `path`."""
    holder = at(text, path)
    style = Style.of(text)
    written = style.dump(value, len(path) + 1)
    entry = written if key is None else f"{json.dumps(key)}: {written}"
    existing = list(parts(text, holder.start))
    if existing:
        place = existing[-1].end
        return text[:place] + "," + style.line(len(path) + 1, inline=" ") + entry + text[place:]
    end = holder.end
    inside = style.line(len(path) + 1) + entry + style.line(len(path))
    return text[: holder.start + 1] + inside + text[end - 1 :]


def remove(text: str, path: Path, part: Part) -> str:
    """Remove a part of the object or array at `path`, including its comma and white space."""
    holder = at(text, path)
    siblings = list(parts(text, holder.start))
    place = siblings.index(part)
    if place > 0:
        return text[: siblings[place - 1].end] + text[part.end :]
    if len(siblings) > 1:
        return text[: part.begin] + text[siblings[1].begin :]
    return text[: holder.start + 1] + text[holder.end - 1 :]


@dataclass(frozen=True, slots=True)
class Style:
    """Line end and indentation of a document; both are empty if it is on one line."""

    newline: str = "\n"
    indent: str = "  "

    @classmethod
    def of(cls, text: str) -> "Style":
        found = _FIRST_INDENT.match(text)
        if found:
            return cls(found[1], found[2])
        return cls() if is_empty(text) else cls("", "")

    def line(self, depth: int, *, inline: str = "") -> str:
        """Return the line break before an entry at this depth, or `inline` in a document on one line."""
        return self.newline + self.indent * depth if self.newline else inline

    def dump(self, value: Any, depth: int) -> str:
        """Format `value` for this depth, keeping non-ASCII characters."""
        if not self.newline:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=self.indent).replace("\n", self.line(depth))


def is_empty(text: str) -> bool:
    """Return whether the document is an empty object or array."""
    return _EMPTY.fullmatch(text) is not None


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found else position
