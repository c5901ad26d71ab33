"""Time zones by IANA name, and what a time means in one.

A time at exactly midnight UTC is a day alone, as from a file that gives only dates: it is that day in every zone.
"""

import difflib
from collections.abc import Iterable
from datetime import UTC, date, datetime, time, tzinfo
from functools import cache
from typing import Annotated
from zoneinfo import ZoneInfo, available_timezones

from pydantic import AfterValidator

from hooks.contract import Text, as_utc

DEFAULT_ZONE = "UTC"


def zone_of(name: str) -> tzinfo:
    """Return the time zone of this name. Raise `ValueError` that says what to write if there is none."""
    if name == DEFAULT_ZONE:
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # unknown, not a relative path, or a folder such as "Europe"
        raise ValueError(f"unknown time zone{_like(name)}; use an IANA name such as Europe/Zurich or UTC") from None


def known_zone(name: str) -> str:
    """Return `name`. Raise `ValueError` if it is no time zone."""
    zone_of(name)
    return name


ZoneName = Annotated[Text, AfterValidator(known_zone)]
"""The IANA name of a time zone, such as `Europe/Zurich`."""


@cache
def _names() -> dict[str, str]:
    """Return all names by how they may be meant: in any case, with spaces, or the city alone."""
    names = sorted(available_timezones())
    cities = {_plain(name.rpartition("/")[2]): name for name in reversed(names) if "/" in name}
    return cities | {_plain(name): name for name in names}


def _plain(name: str) -> str:
    return name.strip().casefold().replace(" ", "_")


def _like(name: str) -> str:
    near = difflib.get_close_matches(_plain(name[:100]), _names(), n=1, cutoff=0.75)
    return f"; did you mean {_names()[near[0]]}?" if near else ""


def zone_name(zone: tzinfo | None) -> str:
    """Return the name of a time zone as people are told it."""
    return str(zone or UTC)


def in_zone(moment: datetime, zone: tzinfo) -> datetime:
    """Convert a time to UTC; one without a zone is meant in `zone`."""
    if moment.tzinfo is not None:
        return as_utc(moment)
    try:
        return moment.replace(tzinfo=zone).astimezone(UTC)
    except OverflowError:  # within a day of the first or last year
        return moment.replace(tzinfo=UTC)


def seen_in(moment: datetime, zone: tzinfo) -> datetime:
    """Return the same time as a clock in `zone` shows it; in UTC where that is outside the years 1 to 9999."""
    try:
        return as_utc(moment).astimezone(zone)
    except OverflowError:
        return as_utc(moment)


def is_day_alone(moment: datetime) -> bool:
    """Return whether a time stands for a whole day."""
    return as_utc(moment).time() == time.min


def day_in(moment: datetime, zone: tzinfo) -> date:
    """Return the day of a time in a zone."""
    if is_day_alone(moment):
        return as_utc(moment).date()
    return seen_in(moment, zone).date()


def widened(since: datetime | None, until: datetime | None, zone: tzinfo) -> tuple[datetime | None, datetime | None]:
    """Return limits that also include every day alone of the range, and so may include other times near its ends."""
    first = since and min(as_utc(since), _wall_clock(since, zone))
    last = until and max(as_utc(until), _wall_clock(until, zone))
    return first, last


def is_within(moments: Iterable[datetime], since: datetime | None, until: datetime | None, zone: tzinfo) -> bool:
    """Return whether one of the moments is in the range, as seen in a zone; no limits include everything."""
    if since is None and until is None:
        return True
    seen = [in_zone(as_utc(one).replace(tzinfo=None), zone) if is_day_alone(one) else one for one in moments]
    return any((since is None or since <= one) and (until is None or one <= until) for one in seen)


def _wall_clock(moment: datetime, zone: tzinfo) -> datetime:
    """Return what a clock in `zone` shows at a time, as if it were UTC."""
    return seen_in(moment, zone).replace(tzinfo=UTC)
