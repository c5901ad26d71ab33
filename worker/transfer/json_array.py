"""A JSON array of memories, bare or inside an object, read piece by piece without holding the file."""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from .entries import Fields, Found, Rejected
from .text import decoding_fault

CHUNK = 1 << 16
MAX_ITEM_CHARS = 1_000_000

LISTS = ("results", "memories", "data", "items")
"""Names under which an object may hold the array; the first one that is there counts."""

_SPACE = " \t\r\n"
_decoder = json.JSONDecoder()


class _Broken(Exception):
    """The text is no JSON from here on."""


class _Text:
    """What has been read of the stream and not used up, and the number of the line where that begins."""

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
        """The next character that is not white space; empty at the end."""
        while True:
            while self._at < len(self._buffer):
                if self._buffer[self._at] not in _SPACE:
                    return self._buffer[self._at]
                self._advance(self._at + 1)
            if not self._more():
                return ""

    def take(self, expected: str) -> None:
        if self.peek() != expected:
            raise _Broken(f"expected {expected!r}, found {self.peek() or 'the end of the file'!r}")
        self._advance(self._at + 1)

    def value(self) -> Any:
        """The next JSON value."""
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
                    raise _Broken(f"not JSON, or one entry longer than {MAX_ITEM_CHARS} characters") from error
                if not self._more(wanted):
                    raise _Broken(f"not JSON: {getattr(error, 'msg', 'a number too long')}") from error
            wanted = min(2 * wanted, MAX_ITEM_CHARS)
        if (fault := decoding_fault(self._buffer[self._at : end])) is not None:
            value = fault
        self._advance(end)
        return value

    def _advance(self, end: int) -> None:
        self.line += self._buffer.count("\n", self._at, end)
        self._at = end


def read_json_array(stream: TextIO, name: str) -> Iterator[Found]:
    """The objects of the array; where the text breaks off, what follows cannot be read and is reported once."""
    text = _Text(stream)
    try:
        if text.peek() == "{":
            yield from _inside_object(text)
        else:
            yield from _array(text)
            if text.peek():
                raise _Broken("more text after the array")
    except _Broken as error:
        yield Rejected(text.line, f"{error}; nothing after this line was read")


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
        raise _Broken(f"there is no list under one of {', '.join(LISTS)}")


def _array(text: _Text) -> Iterator[Found]:
    text.take("[")
    while text.peek() != "]":
        text.peek()
        line, value = text.line, text.value()
        if isinstance(value, dict):
            yield Fields(line, value)
        else:
            yield Rejected(line, value if value == "not valid UTF-8" else _expected(value))
        if text.peek() != "]":
            text.take(",")
    text.take("]")


def _expected(value: Any) -> str:
    return f"expected a JSON object, found {type(value).__name__}"
