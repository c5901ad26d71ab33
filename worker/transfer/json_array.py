"""Streaming reader for a JSON array of memories, bare or inside an object."""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from .entries import Fields, Found, Rejected
from .jsonl import NO_OBJECT
from .text import NOT_UTF8, decoding_fault

CHUNK = 1 << 16
MAX_ITEM_CHARS = 1_000_000

LISTS = ("results", "memories", "data", "items")
"""Keys that can hold the array; the first one in the file is used."""

_SPACE = " \t\r\n"
_decoder = json.JSONDecoder()


class _Broken(Exception):
    """The rest of the text cannot be parsed."""


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
        """Parse the next JSON value."""
        self.peek()
        wanted = CHUNK
        while True:
            try:
                value, end = _decoder.raw_decode(self._buffer, self._at)
                if end < len(self._buffer) or not self._more(wanted):
                    break
            except RecursionError as error:
                raise _Broken("nested too deeply") from error
            except ValueError as error:
                if len(self._buffer) - self._at > MAX_ITEM_CHARS:
                    raise _Broken(f"not valid JSON, or an entry longer than {MAX_ITEM_CHARS} characters") from error
                if not self._more(wanted):
                    raise _Broken("not valid JSON") from error
            wanted = min(2 * wanted, MAX_ITEM_CHARS)
        if (fault := decoding_fault(self._buffer[self._at : end])) is not None:
            value = fault
        self._advance(end)
        return value

    def _advance(self, end: int) -> None:
        self.line += self._buffer.count("\n", self._at, end)
        self._at = end


def read_json_array(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the objects of the array; report once if the rest of the file cannot be parsed."""
    text = _Text(stream)
    try:
        if text.peek() == "{":
            yield from _inside_object(text)
        else:
            yield from _array(text)
            if text.peek():
                raise _Broken("unexpected text after the array")
    except _Broken as error:
        yield Rejected(text.line, f"{error}; the rest of the file was skipped")


def _inside_object(text: _Text) -> Iterator[Found]:
    text.take("{")
    found = False
    while text.peek() not in ("}", ""):
        key = text.value()
        text.take(":")
        if not found and key in LISTS and text.peek() == "[":
            found = True
            yield from _array(text)
        else:
            text.value()
        if text.peek() != "}":
            text.take(",")
    text.take("}")
    if not found:
        raise _Broken(f"no list found; expected one of the keys {', '.join(LISTS)}")


def _array(text: _Text) -> Iterator[Found]:
    text.take("[")
    while text.peek() != "]":
        text.peek()
        line, value = text.line, text.value()
        if isinstance(value, dict):
            yield Fields(line, value)
        else:
            yield Rejected(line, value if value == NOT_UTF8 else NO_OBJECT)
        if text.peek() != "]":
            text.take(",")
    text.take("]")
