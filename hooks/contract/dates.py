"""Dates where a time is expected."""

import re
from datetime import date, datetime, time
from typing import Annotated

from pydantic import BeforeValidator

from .fields import LocalTime, UtcTime

_DAY = re.compile(r"\s*\d{4}-\d{2}-\d{2}\s*")


def end_of_day(value: object) -> object:
    """Return the last microsecond of a `date` or a text like `2026-03-05`, and any other value unchanged."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return datetime.combine(value, time.max)
    return f"{value.strip()}T23:59:59.999999" if isinstance(value, str) and _DAY.fullmatch(value) else value


LastMoment = Annotated[UtcTime, BeforeValidator(end_of_day)]
"""Upper time limit; a date without a time includes the whole day."""

LastLocalMoment = Annotated[LocalTime, BeforeValidator(end_of_day)]
"""Upper time limit in the time zone of the request; a date without a time includes the whole day."""
