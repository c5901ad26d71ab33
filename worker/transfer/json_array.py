"""Streaming reader for JSON that is not JSON Lines: an array of memories, bare or inside an object, or one memory.

Also read are agent files of Letta (`blocks`, `core_memory`) and graphs of the MCP server "memory" (`entities`).
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TextIO

from .entries import REST_SKIPPED, Fields, Found, LeftOut, Rejected
from .field_names import FIELDS, TYPE_NAMES, snake_case
from .jsonl import NO_OBJECT
from .meaning import KEYS
from .text import decoding_fault

CHUNK = 1 << 16
MAX_ITEM_CHARS = 1_000_000
MAX_KEYS = 200

LISTS = ("results", "memories", "data", "items")
"""Keys that usually hold the array."""

_LISTS = frozenset((*LISTS, "blocks", "core_memory", "entities", "relations", "records", "points", *TYPE_NAMES))
_AGENTS = "agents"
_SHARED = frozenset(name for name, field in FIELDS.items() if field in ("user", "agent", "project", "valid_until"))
"""Values beside the array that limit all its entries."""

_SPACE = " \t\r\n"
_NUMBER_DIGITS = 1000
_PIECE = re.compile(r'[\[\]{}"]|[^\[\]{}"]+')


def _whole_number(text: str) -> int | str:
    return int(text) if len(text) <= _NUMBER_DIGITS else text


_decoder = json.JSONDecoder(parse_int=_whole_number)


class _Broken(Exception):
    """The rest of the text cannot be parsed."""


class _Unusable(Exception):
    """A value cannot be used, but what follows it can be read."""


class _Text:
    """A buffered stream and its current line number."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._buffer = ""
        self._at = 0
        self.line = 1

    def _more(self, count: int = CHUNK) -> bool:
        read = self._stream.read(count)
        self._buffer = self._buffer[self._at :] + read
        self._at = 0
        return bool(read)

    def peek(self) -> str:
        """Return the next character that is not white space, or an empty text at the end."""
        while True:
            while self._at < len(self._buffer):
                if self._buffer[self._at] not in _SPACE:
                    return self._buffer[self._at]
                self._advance(self._at + 1)
            if not self._more():
                return ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise _Broken(f"expected {expected!r}, found {repr(self.peek()) if self.peek() else 'the end of the file'}")
        self._advance(self._at + 1)

    def value(self) -> Any:
        """Parse the next JSON value; raise `_Unusable` after skipping one that is nested too deeply or too long."""
        self.peek()
        wanted = CHUNK
        while True:
            try:
                value, end = _decoder.raw_decode(self._buffer, self._at)
                if end < len(self._buffer) or not self._more(wanted):
                    break
            except RecursionError as error:
                self._skip()
                raise _Unusable("nested too deeply") from error
            except ValueError as error:
                if len(self._buffer) - self._at > MAX_ITEM_CHARS:
                    self._skip()
                    raise _Unusable(f"not valid JSON, or longer than {MAX_ITEM_CHARS} characters") from error
                if not self._more(wanted):
                    raise _Broken("not valid JSON") from error
            wanted = min(2 * wanted, MAX_ITEM_CHARS)
        fault = decoding_fault(self._buffer[self._at : end])
        self._advance(end)
        if fault is not None:
            raise _Unusable(fault)
        return value

    def _skip(self) -> None:
        """Go to the end of the next value without building it."""
        depth, quoted = 0, False
        while self.peek() or quoted:
            if self._at >= len(self._buffer) and not self._more():
                break
            depth, quoted, done = self._skip_in_buffer(depth, quoted)
            if done:
                return
        raise _Broken("not valid JSON")

    def _skip_in_buffer(self, depth: int, quoted: bool) -> tuple[int, bool, bool]:
        """Return depth and whether in a text at the end of the buffer, or that the value ended."""
        for piece in _PIECE.finditer(self._buffer, self._at):
            if piece[0] == '"':
                before = self._buffer[max(self._at, piece.start() - 64) : piece.start()]
                escaped = quoted and (len(before) - len(before.rstrip("\\"))) % 2 == 1
                quoted = quoted if escaped else not quoted
            elif not quoted and piece[0] in "[{":
                depth += 1
            elif not quoted and piece[0] in "]}":
                depth -= 1
            if depth <= 0 and not quoted and piece[0] in '"]}':
                self._advance(piece.end())
                return depth, quoted, True
        self._advance(len(self._buffer))
        return depth, quoted, False

    def _advance(self, end: int) -> None:
        self.line += self._buffer.count("\n", self._at, end)
        self._at = end


def read_json_array(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the objects of the array; report once if the rest of the file cannot be parsed."""
    text = _Text(stream)
    try:
        if text.peek() == "{":
            shared = _Object(text)
            for _ in shared.found():  # the values beside the array may follow it
                pass
            stream.seek(0)
            yield from _Object(_Text(stream), shared.limits).found()
        else:
            yield from _array(text, {})
            if text.peek():
                raise _Broken("unexpected text after the array")
    except _Broken as error:
        yield Rejected(text.line, f"{error}; {REST_SKIPPED}")


class _Object:
    """An object around arrays of memories. `limits` are values beside the arrays that limit every entry."""

    def __init__(self, text: _Text, limits: dict[str, Any] | None = None) -> None:
        self._text = text
        self.limits = dict(limits or {})
        self._single: dict[str, Any] = {}
        self._agents: dict[str, str] = {}

    def found(self) -> Iterator[Found]:
        try:
            yield from self._read()
        except _Broken as error:
            yield Rejected(self._text.line, f"{error}; {REST_SKIPPED}")

    def _read(self) -> Iterator[Found]:
        text = self._text
        text.take("{")
        arrays = 0
        while text.peek() not in ("}", ""):
            key = text.value()
            text.take(":")
            if key in _LISTS and text.peek() == "[":
                arrays += 1
                yield from self._array(key)
            else:
                yield from self._beside(key)
            if text.peek() != "}":
                text.take(",")
        text.take("}")
        if arrays:
            return
        if any(FIELDS.get(snake_case(key)) == "content" for key in self._single):
            yield Fields(1, self._single)
            return
        raise _Broken(f"no list found; expected one of the keys {', '.join(LISTS)}")

    def _array(self, key: str) -> Iterator[Found]:
        extra: dict[str, Any] = dict(self.limits)
        if key in TYPE_NAMES:
            extra["type"] = TYPE_NAMES[key].value
        for found in _array(self._text, extra):
            if isinstance(found, Fields) and (agent := self._agents.get(str(found.values.get("id")))):
                found.values.setdefault("agent", agent)
            yield found

    def _beside(self, key: Any) -> Iterator[Found]:
        """Read a value that is no array of memories."""
        line = self._text.line
        try:
            value = self._text.value()
        except _Unusable as error:
            yield Rejected(line, f"{key}: {error}")
            return
        if key == _AGENTS and isinstance(value, list):
            self._agents = _owners(value)
            yield LeftOut(line, "agents: their messages, prompts and tools are no memories")
        elif value not in (None, "", [], {}) and len(self._single) < MAX_KEYS:
            self._single[str(key)] = value
            if snake_case(str(key)) in (_SHARED | KEYS):
                self.limits[str(key)] = value


def _owners(agents: list[Any]) -> dict[str, str]:
    """Return the agent's name by the id of a block that only one agent has."""
    found: dict[str, set[str]] = {}
    for agent in agents:
        with suppress(AttributeError, TypeError):
            for block in agent.get("block_ids") or ():
                found.setdefault(str(block), set()).add(str(agent.get("name") or ""))
    return {block: names.pop() for block, names in found.items() if len(names) == 1}


def _array(text: _Text, extra: dict[str, Any]) -> Iterator[Found]:
    text.take("[")
    while text.peek() != "]":
        text.peek()
        line = text.line
        try:
            value = text.value()
        except _Unusable as error:
            yield Rejected(line, str(error))
        else:
            yield _item(line, value, extra)
        if text.peek() != "]":
            text.take(",")
    text.take("]")


def _item(line: int, value: Any, extra: dict[str, Any]) -> Found:
    if isinstance(value, str):
        return Fields(line, {**extra, "content": value})
    return Fields(line, {**extra, **value}) if isinstance(value, dict) else Rejected(line, NO_OBJECT)
