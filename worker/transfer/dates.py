"""Dates as files write them."""

import math
import re
from contextlib import suppress
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from hooks.contract import as_utc

MAX_CHARS = 64

_DAYS = ("%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%d. %B %Y", "%Y/%m/%d", "%d.%m.%Y", "%Y%m%d")
_TIMES = ("", " %I:%M %p", " %I:%M:%S %p", " %H:%M", " %H:%M:%S")
_FORMATS = tuple(day + time for day in _DAYS for time in _TIMES)
_NUMBER = re.compile(r"-?\d{1,14}(?:\.\d{1,9})?")
_MILLISECONDS = 2e10
"""Numbers above this are milliseconds since 1970, below it seconds."""


def read_time(value: Any) -> datetime | None:
    """Return a time in UTC, or `None` if it is unclear; numbers are Unix time, and naive times are UTC.

    `05/08/2025` is unclear: it is a day in May or in August.
    """
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, datetime):
            return as_utc(value)
        if isinstance(value, date):
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return _from_number(float(value))
        if isinstance(value, str) and len(value) <= MAX_CHARS:
            return _from_text(" ".join(value.split()))
    return None


def read_day(text: str) -> date | None:
    """Return the day written as `2026-01-31`, or `None`."""
    with suppress(ValueError):
        return date.fromisoformat(text)
    return None


def _from_number(number: float) -> datetime | None:
    if not math.isfinite(number):
        return None
    return datetime.fromtimestamp(number / 1000 if abs(number) > _MILLISECONDS else number, UTC)


def _from_text(text: str) -> datetime | None:
    if _NUMBER.fullmatch(text) and len(text) != len("20260131"):
        return _from_number(float(text))
    with suppress(ValueError):
        return as_utc(datetime.fromisoformat(text.removesuffix(" UTC")))
    for layout in _FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, layout).replace(tzinfo=UTC)
    return as_utc(parsedate_to_datetime(text)) if "," in text or ":" in text else None
