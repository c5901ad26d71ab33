"""Words for values, used as filters of the templates. Pure."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from worker.text.excerpts import shortened


def moment(at: datetime | None) -> str:
    """Return a time as people read it."""
    return "" if at is None else f"{at.astimezone(UTC):%-d %b %Y, %H:%M:%S} UTC"


def day(at: datetime | None) -> str:
    return "" if at is None else f"{at.astimezone(UTC):%-d %b %Y}"


def clock(at: datetime) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S}"


def iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def ago(span: timedelta) -> str:
    """Return how long ago something was."""
    seconds = max(0, int(span.total_seconds()))
    for unit, size in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            return f"{counted(seconds // size, unit, f'{unit}s')} ago"
    return "just now"


def milliseconds(spent: float) -> str:
    """Return a duration in the unit that people would use."""
    return f"{spent / 1000:.2f} s" if spent >= 1000 else f"{spent:.0f} ms" if spent >= 10 else f"{spent:.1f} ms"


def count(number: int) -> str:
    return f"{number:,}"


def counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def fit_text(text: str, limit: int = 160) -> str:
    """Return the beginning of a text in one line."""
    return shortened(" ".join(text[: 2 * limit].split()), limit)


def in_address(value: str) -> str:
    """Return a value as one part of an address."""
    return quote(value, safe="")


FILTERS: Mapping[str, Callable[..., Any]] = {
    "moment": moment,
    "day": day,
    "clock": clock,
    "iso": iso,
    "milliseconds": milliseconds,
    "count": count,
    "counted": counted,
    "share": share,
    "fit_text": fit_text,
    "in_address": in_address,
}
