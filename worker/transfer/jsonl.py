"""JSON Lines, one memory per line: what `export` writes and `import` reads. Pure."""

import json
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from ..errors import MemoryRejected
from ..models import Memory
from .entries import Fields, Found, Rejected, memory_from


def found_in_lines(lines: Iterable[str]) -> Iterator[Found]:
    """The objects of all lines that are not blank."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield Fields(number, object_in(line))
        except MemoryRejected as error:
            yield Rejected(number, str(error))


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


def read_lines(lines: Iterable[str], now: datetime) -> Iterator[tuple[int, Memory | Rejected]]:
    """Each non-blank line's number with its memory, or with the reason why it is none."""
    for found in found_in_lines(lines):
        try:
            yield found.line, found if isinstance(found, Rejected) else memory_from(found.values, now)
        except MemoryRejected as error:
            yield found.line, Rejected(found.line, str(error))
