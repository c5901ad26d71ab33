"""Changes a JSON document and leaves every byte that it does not have to touch as it is. Pure.

Only what is put in is written anew, in the indentation of the document. Positions are offsets in the text.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from worker.domain.errors import SettingsError

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()
_FIRST_INDENT = re.compile(r"^[ \t\r\n]*[{\[][ \t]*(\r?\n)([ \t]+)")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A value in the text, with its key where it is in an object; `begin` is where key or value begins."""

    begin: int
    start: int
    end: int
    key: str | None = None


def parsed(text: str, name: str) -> dict[str, Any]:
    """The document. Raises `SettingsError` that says where `name` is wrong, for anything that is not one object."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise SettingsError(
                f"{name}: the key {twice!r} is there twice in one object; remove one, nothing was changed"
            )
        return found

    try:
        document = json.loads(text, object_pairs_hook=unique)
    except ValueError as error:
        where = f":{error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        what = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise SettingsError(f"{name}{where}: not valid JSON ({what}); correct it first, nothing was changed") from error
    except RecursionError as error:
        raise SettingsError(f"{name}: nested too deeply; correct it first, nothing was changed") from error
    if not isinstance(document, dict):
        raise SettingsError(f"{name}: there must be one JSON object in it; correct it first, nothing was changed")
    return document


def find(text: str, path: Path) -> Part | None:
    """The member at `path` of a valid document, the document itself for the empty path."""
    part = Part(_skip(text, 0), _skip(text, 0), len(text.rstrip()))
    for key in path:
        if text[part.start] != "{":
            return None
        inner = next((member for member in parts(text, part.start) if member.key == key), None)
        if inner is None:
            return None
        part = inner
    return part


def parts(text: str, start: int) -> Iterator[Part]:
    """The members of the object, or the items of the array, that begins at `start`."""
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
    """The document with `value` as the last item of the array, or as the last member of the object, at `path`."""
    holder = find(text, path)
    if holder is None:
        raise LookupError(path)
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
    """The document without this part of the object or array at `path`, its comma and its blanks."""
    holder = find(text, path)
    if holder is None:
        raise LookupError(path)
    siblings = list(parts(text, holder.start))
    place = siblings.index(part)
    if place > 0:
        return text[: siblings[place - 1].end] + text[part.end :]
    if len(siblings) > 1:
        return text[: part.begin] + text[siblings[1].begin :]
    return text[: holder.start + 1] + text[holder.end - 1 :]


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is written: its line end and its indentation, both empty where it is all on one line."""

    newline: str = "\n"
    indent: str = "  "

    @classmethod
    def of(cls, text: str) -> "Style":
        found = _FIRST_INDENT.match(text)
        if found:
            return cls(found[1], found[2])
        return cls() if find_is_empty(text) else cls("", "")

    def line(self, depth: int, *, inline: str = "") -> str:
        """The break before an entry at this depth; `inline` is what stands for it on one line."""
        return self.newline + self.indent * depth if self.newline else inline

    def dump(self, value: Any, depth: int) -> str:
        """`value` as it is written at this depth, with non-ASCII characters as they are."""
        if not self.newline:
            return json.dumps(value, ensure_ascii=False)
        return json.dumps(value, ensure_ascii=False, indent=self.indent).replace("\n", self.line(depth))


def find_is_empty(text: str) -> bool:
    """Whether the document is an object, or an array, with nothing in it."""
    return re.fullmatch(r"[ \t\r\n]*(\{\s*\}|\[\s*\])[ \t\r\n]*", text) is not None


def _skip(text: str, position: int) -> int:
    found = _BLANKS.match(text, position)
    return found.end() if found else position
