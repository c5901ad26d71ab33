"""JSON Lines, one memory per line: what `export` writes and `import` reads."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, TextIO

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory

from .entries import Fields, Found, Rejected, memory_from
from .text import TextLine, lines_of


def read_jsonl(stream: TextIO, name: str) -> Iterator[Found]:
    """The objects of a stream of JSON Lines."""
    return _found(lines_of(stream))


def read_lines(lines: Iterable[str], now: datetime) -> Iterator[tuple[int, Memory | Rejected]]:
    """Each non-blank line's number with its memory, or with the reason why it is none."""
    for found in _found(TextLine(number, text) for number, text in enumerate(lines, 1)):
        try:
            yield found.line, found if isinstance(found, Rejected) else memory_from(found.values, now)
        except MemoryRejected as error:
            yield found.line, Rejected(found.line, str(error))


def _found(lines: Iterable[TextLine]) -> Iterator[Found]:
    for line in lines:
        if line.fault is not None:
            yield Rejected(line.number, line.fault)
        elif line.text.strip():
            yield _entry(line)


def _entry(line: TextLine) -> Found:
    try:
        return Fields(line.number, object_in(line.text))
    except MemoryRejected as error:
        return Rejected(line.number, str(error))


def object_in(text: str) -> dict[str, Any]:
    """The JSON object in `text`. Raises `MemoryRejected`."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise MemoryRejected(f"not JSON: {error.msg} at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise MemoryRejected("not JSON that can be read: it is nested too deeply or holds a number too long") from error
    if not isinstance(value, dict):
        raise MemoryRejected(f"expected a JSON object, found {type(value).__name__}")
    return value
