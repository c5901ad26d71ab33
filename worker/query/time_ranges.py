"""Times as a search filter: a day, a month, a year, a span of them, or words such as "since last week"."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from worker.domain.kinds import Language
from worker.domain.zones import in_zone

from .time_expressions import YEARS, time_span

HELP = (
    "use a day (2026-03-01), a month (2026-03), a year, a span (2026-03-01/2026-03-31),"
    " or words such as last week, since March, before 2026-03-01"
)

_TICK = timedelta(microseconds=1)
_YEAR = re.compile(r"\d{4}")
_FILLERS = frozenset({"the", "in", "on"})
_DIRECTION = re.compile(r"(since|after|from|before|until|till|up to)\s+(.+)", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """A range in UTC that includes both ends; `None` is an open end."""

    since: datetime | None = None
    until: datetime | None = None


def time_range(text: str, now: datetime, languages: Sequence[Language]) -> TimeRange | None:
    """Return the range that `text` names at `now`, or `None` if it is not understood."""
    stripped = text.strip()
    for mark in ("/", "..", " to "):
        first, found, last = stripped.partition(mark)
        if found and (span := _between(first.strip(" ."), last.strip(" ."), now, languages)) is not None:
            return span
    directed = _DIRECTION.fullmatch(stripped)
    if directed is not None:
        return _directed(directed[1].casefold(), _one(directed[2], now, languages))
    return _one(stripped, now, languages)


def _between(first: str, last: str, now: datetime, languages: Sequence[Language]) -> TimeRange | None:
    """Return the range from one time to another, either of which may be empty or `*`."""
    ends = [TimeRange() if end in ("", "*") else _one(end, now, languages) for end in (first, last)]
    if ends[0] is None or ends[1] is None or ends == [TimeRange(), TimeRange()]:
        return None
    since, until = ends[0].since, ends[1].until
    return None if since is not None and until is not None and until < since else TimeRange(since, until)


def _directed(word: str, named: TimeRange | None) -> TimeRange | None:
    if named is None or named.since is None or named.until is None:
        return None
    if word == "after":
        return TimeRange(named.until + _TICK, None)
    if word == "before":
        return TimeRange(None, named.since - _TICK)
    return TimeRange(named.since, None) if word in ("since", "from") else TimeRange(None, named.until)


def _one(text: str, now: datetime, languages: Sequence[Language]) -> TimeRange | None:
    if _YEAR.fullmatch(text):
        year = int(text)
        if not YEARS[0] <= year <= YEARS[1]:
            return None
        first, after = (in_zone(datetime(start, 1, 1), now.tzinfo or UTC) for start in (year, year + 1))
        return TimeRange(first, after - _TICK)
    # "March" alone may be another word, which "in March" is not
    spans = (time_span(words, now, languages) for words in (text, f"in {text}"))
    span = next((span for span in spans if span is not None), None)
    if span is None or set(span.text.casefold().split()) - _FILLERS:
        return _moment(text, now)
    return TimeRange(span.since, span.until)


def _moment(text: str, now: datetime) -> TimeRange | None:
    try:
        moment = in_zone(datetime.fromisoformat(text), now.tzinfo or UTC)
    except ValueError:
        return None
    return TimeRange(moment, moment)
