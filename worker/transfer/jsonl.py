"""JSON Lines, one memory per line, as written by `export`."""

import json
from collections.abc import Iterator
from typing import Any, TextIO

from worker.domain.errors import MemoryRejected

from .entries import Fields, Found, Rejected
from .text import TextLine, lines_of

NO_OBJECT = "not a JSON object"


def read_jsonl(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the objects of a stream of JSON Lines."""
    for line in lines_of(stream):
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
