"""Reading of stored memories: one damaged field costs only itself.

A damaged field gets its default. But who may see a memory is never guessed: with a damaged scope it stays unread.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from worker.domain.errors import StoreError
from worker.domain.memory import MEMORIES_CACHED, Memory

NEEDED = frozenset({"id", "content", "scope"})
"""Fields without which a memory cannot be used."""


@dataclass(frozen=True, slots=True)
class Row:
    """A stored memory, and the fields that could not be read."""

    memory: Memory
    damaged: tuple[str, ...] = ()


@lru_cache(maxsize=MEMORIES_CACHED)
def row_of(text: str) -> Row:
    """Return the memory in a stored text. Raise `StoreError` if it cannot be read."""
    try:
        return Row(Memory.model_validate_json(text))
    except ValidationError as error:
        return _repaired(text, error)


def _repaired(text: str, error: ValidationError) -> Row:
    """Leave out the damaged fields, and scopes that mean nothing."""
    values = _values(text)
    damaged = {str(fault["loc"][0]) for fault in error.errors(include_url=False, include_input=False) if fault["loc"]}
    if isinstance(values.get("scope"), dict):
        values["scope"] = {key: name for key, name in values["scope"].items() if not _is_blank(name)}
    kept = {key: value for key, value in values.items() if key in NEEDED or key not in damaged}
    try:
        return Row(Memory.model_validate(kept), tuple(sorted(damaged - NEEDED)))
    except ValidationError as still:
        raise StoreError(f"a stored memory cannot be read: {still.error_count()} invalid fields") from still


def _values(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise StoreError("a stored memory cannot be read: it is not JSON") from error
    if not isinstance(values, dict):
        raise StoreError("a stored memory cannot be read: it is not a JSON object")
    return values


def _is_blank(name: object) -> bool:
    """Return whether an owner is a blank text, which former versions stored for "everybody"."""
    return isinstance(name, str) and not name.strip()
