"""Plain words for the errors of pydantic."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

MOST_FAULTS = 5
"""Most faults in one message."""

_BOUNDS = {"ge": "at least", "gt": "greater than", "le": "at most", "lt": "less than"}
_EXPECTED = {
    "extra": "unknown key",
    "unexpected": "unknown key",
    "missing": "is required",
    "bool": "must be true or false",
    "int": "must be a whole number",
    "float": "must be a number",
    "finite": "must be a number",
    "decimal": "must be a number",
    "string": "must be text",
    "path": "must be a path",
    "tuple": "must be a list",
    "list": "must be a list",
    "dict": "must be a table of keys and values",
    "model": "must be a table of keys and values",
    "date": "must be a date, such as 2026-01-31",
    "datetime": "must be a date and time, such as 2026-01-31T12:00:00Z",
    "timezone": "must be a date and time with a time zone, such as 2026-01-31T12:00:00Z",
}
"""Messages by error type, or by the first word of it."""


def plain_message(fault: Mapping[str, Any], limits: Iterable[Any] = ()) -> str:
    """Return what an entry of `ValidationError.errors()` means; `limits` is the metadata of its field."""
    kind, context = fault["type"], fault.get("ctx", {})
    if choices := context.get("expected") or _choices(context.get("pattern", "")):
        return "must be one of: " + choices.replace("'", "").replace(" or ", ", ")
    if kind == "value_error":
        return str(context["error"])
    if not _BOUNDS.keys().isdisjoint(context):
        return _range(context | {name: bound for limit in limits for name, bound in _bounds(limit)})
    if kind == "string_pattern_mismatch":
        return f"must match {context['pattern']}"
    if "max_length" in context or "min_length" in context:
        return _length(context, "characters" if kind.startswith("string") else "entries")
    return _EXPECTED.get(kind) or _EXPECTED.get(kind.partition("_")[0]) or "is not a valid value"


def describe_faults(error: ValidationError | Sequence[Mapping[str, Any]], whole: str = "") -> str:
    """Return the first faults as `place: message`, without the input; `whole` names the place of the value itself."""
    faults = error.errors(include_url=False, include_input=False) if isinstance(error, ValidationError) else error
    return "; ".join(_described(fault, whole) for fault in faults[:MOST_FAULTS])


def _described(fault: Mapping[str, Any], whole: str) -> str:
    place = ".".join(map(str, fault["loc"])) or whole
    return f"{place}: {plain_message(fault)}" if place else plain_message(fault)


def _choices(pattern: str) -> str:
    words = re.fullmatch(r"\^\(([\w|]+)\)\$", pattern)
    return words[1].replace("|", ", ") if words else ""


def _bounds(limit: Any) -> list[tuple[str, Any]]:
    return [(name, getattr(limit, name)) for name in _BOUNDS if getattr(limit, name, None) is not None]


def _range(bounds: Mapping[str, Any]) -> str:
    plain = {name: int(bounds[name]) if bounds[name] == int(bounds[name]) else bounds[name] for name in bounds}
    if "ge" in plain and "le" in plain:
        return f"must be between {plain['ge']} and {plain['le']}"
    return "must be " + " and ".join(f"{words} {plain[name]}" for name, words in _BOUNDS.items() if name in plain)


def _length(context: Mapping[str, Any], unit: str) -> str:
    if "max_length" in context:
        return f"is too long; at most {context['max_length']} {unit} are allowed"
    least = context["min_length"]
    return "must not be empty" if least == 1 else f"must have at least {least} {unit}"
