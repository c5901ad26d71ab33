"""The day that words name, from the time at which they were said. Pure.

Only what is certain counts: a day without a direction ("on Friday") or far from the time of the turn has no date.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache

from worker.domain.kinds import Language
from worker.query.time_expressions import TimeSpan, time_span
from worker.text.lexicon import fold, phrase_file

_WEEK = timedelta(days=7)
_FAR = timedelta(days=45)
_LIMIT = timedelta(days=100)
"""How far a day without a year may be from the time of the turn; beyond that, another year may be meant."""

_NOWS = (datetime(2001, 1, 15, tzinfo=UTC), datetime(2080, 8, 15, tzinfo=UTC))
"""Times at which only a complete date means the same."""


def named_day(words: str, at: datetime | None, languages: Sequence[Language]) -> datetime | None:
    """Return the day that `words`, said at `at`, name, as its midnight in UTC; `None` if that is not certain."""
    complete = _day(words, _NOWS[0], languages)
    if complete is not None and complete == _day(words, _NOWS[1], languages):
        return complete
    if at is None:
        return None
    day = _day(words, at, languages)
    if day is None:
        return None
    near = abs(day.date() - at.date()) <= _LIMIT
    fixed = near and all(_day(words, at + shift, languages) == day for shift in (-_FAR, _FAR))
    moving = all(_day(words, at + shift, languages) == day + shift for shift in (-_WEEK, _WEEK))
    return day if fixed or moving else None


def _day(words: str, at: datetime, languages: Sequence[Language]) -> datetime | None:
    span = time_span(words, at, languages)
    if span is None or span.until - span.since >= timedelta(days=1) or _is_bare_weekday(span, languages):
        return None
    local = span.since.astimezone(at.tzinfo)
    return datetime(local.year, local.month, local.day, tzinfo=UTC)


def _is_bare_weekday(span: TimeSpan, languages: Sequence[Language]) -> bool:
    return any(" ".join(fold(span.expression).split()) in _bare_weekdays(language) for language in languages)


@cache
def _bare_weekdays(language: Language) -> frozenset[str]:
    """Return the ways to say a weekday without saying which one."""
    table = phrase_file(language)["time"]
    names = [fold(name) for entry in table["weekdays"] for name in entry.split("|")]
    templates = [fold(text) for text in table["rules"]["weekday"]]
    texts = (text.replace("{any_weekday}", name).replace("{weekday}", name) for text in templates for name in names)
    return frozenset(texts)
