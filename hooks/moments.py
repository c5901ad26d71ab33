"""Days as callers write them where a time is asked for. Pure."""

import re
from datetime import date, datetime, time
from typing import Annotated

from pydantic import BeforeValidator

from .contract import UtcTime

_DAY = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*")


def end_of_day(value: object) -> object:
    """A day, as a `date` or as `2026-03-05`, as its last microsecond; anything else as it is."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time.max)
    return f"{value.strip()}T23:59:59.999999" if isinstance(value, str) and _DAY.fullmatch(value) else value


LastMoment = Annotated[UtcTime, BeforeValidator(end_of_day)]
"""A time up to which something is wanted; a day without a time is wanted whole."""
