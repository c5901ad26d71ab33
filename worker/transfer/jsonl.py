"""JSON Lines, one memory per line, as written by `export`."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, TextIO

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory

from .entries import Fields, Found, Rejected, memory_from
from .text import TextLine, lines_of

NO_OBJECT = "not a JSON object"


def read_jsonl(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the objects of a stream of JSON Lines."""
    return _found(lines_of(stream))


def read_lines(lines: Iterable[str], now: datetime) -> Iterator[tuple[int, Memory | Rejected]]:
    """Read each non-blank line as a memory or a rejected entry, with its line number."""
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
    """Parse a JSON object; raise `MemoryRejected` if it is invalid."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise MemoryRejected(f"not valid JSON at column {error.colno}") from error
    except (ValueError, RecursionError) as error:
        raise MemoryRejected("the JSON is nested too deeply or contains too long a number") from error
    if not isinstance(value, dict):
        raise MemoryRejected(NO_OBJECT)
    return value
