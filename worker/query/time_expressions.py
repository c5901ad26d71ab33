"""Time expressions in messages: "last week", "il y a deux semaines", "on 27 June", "2025-06".

Expressions are defined in the `[time]` tables of `worker/text/phrases/*.toml`; numeric dates work in every language.
Days begin at midnight and weeks on Monday, in the time zone of `now`. Ambiguous dates are resolved to the nearest one,
preferring the past, because memories are about the past.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from typing import Any

from worker.domain.kinds import Language
from worker.text.lexicon import fold, phrase_file

MOST_CHARS = 2000
"""Maximum number of characters examined, from the end of a text."""

MOST_AMOUNT = 400
"""Maximum amount in a relative time ("400 days ago"); larger ones are ignored."""

YEARS = (1990, 2100)
"""Range of numbers recognized as years."""

_CENTURIES = ("19", "20")
_TICK = timedelta(microseconds=1)
_DAY = timedelta(days=1)

_Span = tuple[datetime, datetime]
"""Start (inclusive) and end (exclusive)."""

_Meaning = Callable[[re.Match[str], datetime], _Span | None]
"""Returns the span of a match at a time, or `None` if it is not valid."""


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A span in UTC, including both ends; `text` is the message without `expression`."""

    since: datetime
    until: datetime
    text: str
    expression: str


@dataclass(frozen=True, slots=True)
class _Words:
    """Values for the placeholders in one language's templates."""

    months: Mapping[str, int]
    weekdays: Mapping[str, int]
    units: Mapping[str, str]
    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Rule:
    """One expression. A text must contain one of the `needles` to match, which is faster to check."""

    pattern: re.Pattern[str]
    needles: tuple[str, ...]
    meaning: _Meaning


def time_span(text: str, now: datetime, languages: Sequence[Language]) -> TimeSpan | None:
    """Return the span of the longest time expression in `text`, the first one if several are equally long."""
    plain = unicodedata.normalize("NFC", text)[-MOST_CHARS:]
    folded = fold(plain)
    best: tuple[int, int, _Span] | None = None
    for start, end, span in _found(folded, now, tuple(languages)):
        if best is None or (end - start, -start) > (best[1] - best[0], -best[0]):
            best = (start, end, span)
    if best is None:
        return None
    start, end, (since, until) = best
    rest = " ".join(f"{plain[:start]} {plain[end:]}".split())
    return TimeSpan(since.astimezone(UTC), until.astimezone(UTC) - _TICK, rest, plain[start:end])


def preload_rules(languages: Sequence[Language]) -> None:
    """Load the rules of `languages`, which `time_span` would otherwise do on first use."""
    _indexed(tuple(languages))


def _found(folded: str, now: datetime, languages: tuple[Language, ...]) -> Iterator[tuple[int, int, _Span]]:
    rules, by_needle = _indexed(languages)
    present = {place for needle, places in by_needle.items() if needle in folded for place in places}
    for rule in (rules[place] for place in sorted(present)):
        for match in rule.pattern.finditer(folded):
            if (span := _meaning(rule, match, now)) is not None:
                yield match.start(), match.end(), span


@lru_cache(maxsize=64)
def _indexed(languages: tuple[Language, ...]) -> tuple[tuple[_Rule, ...], Mapping[str, Sequence[int]]]:
    """Return the rules of some languages, and by needle the places of the rules that it may be for."""
    rules = tuple(rule for language in (None, *languages) for rule in _rules(language))
    by_needle: dict[str, list[int]] = {}
    for place, rule in enumerate(rules):
        for needle in rule.needles:
            by_needle.setdefault(needle, []).append(place)
    return rules, by_needle


def _meaning(rule: _Rule, match: re.Match[str], now: datetime) -> _Span | None:
    try:
        return rule.meaning(match, now)
    except (ValueError, OverflowError):  # 31 June, or a time out of range
        return None


@cache
def _rules(language: Language | None) -> tuple[_Rule, ...]:
    """Return the rules of a language, or those of numeric dates for `None`."""
    if language is None:
        return _numeric_rules()
    table = phrase_file(language)["time"]
    words = _Words(
        months=_numbered(table["months"], 1),
        weekdays=_numbered(table["weekdays"], 0),
        units={fold(word): unit for unit, entry in table["units"].items() for word in entry.split("|")},
        numbers={fold(word): number for word, number in table["numbers"].items()},
    )
    slots = _slots(words, table)
    spaced = table.get("spaced", True)
    fixed = [_fixed_rule(text, meaning, spaced) for text, meaning in table["fixed"].items()]
    made = [
        _Rule(_template(text, slots, spaced), _needles(text, words), _MEANINGS[kind](words))
        for kind, texts in table["rules"].items()
        for text in texts
    ]
    return (*fixed, *made)


def _numbered(entries: Sequence[str], first: int) -> dict[str, int]:
    return {fold(word): number for number, entry in enumerate(entries, first) for word in entry.split("|")}


def _slots(words: _Words, table: Mapping[str, Any]) -> dict[str, str]:
    """Return the regular expression of each placeholder; only the `any_` forms include ambiguous words ("may")."""
    months = [word for word in words.months if word not in {fold(word) for word in table["ambiguous_months"]}]
    weekdays = [word for word in words.weekdays if word not in {fold(word) for word in table["ambiguous_weekdays"]}]
    return {
        "n": f"(?P<n>{_any([*words.numbers])}|\\d{{1,3}})",
        "unit": f"(?P<unit>{_any([*words.units])})",
        "month": f"(?P<month>{_any(months)})\\.?",
        "any_month": f"(?P<month>{_any([*words.months])})\\.?",
        "weekday": f"(?P<weekday>{_any(weekdays)})",
        "any_weekday": f"(?P<weekday>{_any([*words.weekdays])})",
        "day": r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th|er|\.|º|ª)?",
        "ordinal": r"(?P<day>[12]\d|3[01]|0?[1-9])(?:st|nd|rd|th)",
        "dotted": r"(?P<day>[12]\d|3[01]|0?[1-9])\.",
        "year": r"(?P<year>(?:19|20)\d\d)",
    }


def _any(words: Sequence[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


def _template(text: str, slots: Mapping[str, str], spaced: bool) -> re.Pattern[str]:
    parts = re.split(r"\{(\w+)\}", text)
    pieces = [slots[part] if index % 2 else _literal(part) for index, part in enumerate(parts)]
    return _bounded("".join(pieces), spaced)


def _needles(template: str, words: _Words) -> tuple[str, ...]:
    """Return words of which a text must contain one to match `template`."""
    for slot, needles in (("month", words.months), ("weekday", words.weekdays), ("unit", words.units)):
        if f"{slot}}}" in template:
            return tuple(needles)
    word = _longest_word(re.sub(r"\{\w+\}", " ", template))
    return (word,) if word else tuple("0123456789")


def _longest_word(text: str) -> str:
    return max(re.split(r"[\s'’]+", fold(text)), key=len)


def _literal(text: str) -> str:
    return re.sub(r"(?:\\ )+", r"\\s{1,3}", re.escape(fold(text))).replace("'", "['’]")


def _bounded(pattern: str, spaced: bool) -> re.Pattern[str]:
    """Match whole words only, including a genitive ("last week's"), unless the script has no spaces."""
    return re.compile(rf"(?<![\w-]){pattern}(?:['’]s)?(?![\w])" if spaced else rf"(?<!\d){pattern}")


def _fixed_rule(text: str, meaning: str, spaced: bool) -> _Rule:
    unit, offset = meaning.split()
    return _Rule(
        _bounded(_literal(text), spaced), (_longest_word(text),), lambda _, now: _unit_span(now, unit, int(offset))
    )


def _numeric_rules() -> tuple[_Rule, ...]:
    day, month, year = r"(?P<day>\d\d?)", r"(?P<month>\d\d?)", r"(?P<year>(?:19|20)\d\d)"
    dates = [rf"{year}-{month}-{day}", rf"{year}/{month}/{day}", rf"{day}\.{month}\.{year}"]
    found = [_Rule(re.compile(rf"(?<![\w.-]){text}(?![\w-])"), _CENTURIES, _numeric_date) for text in dates]
    months = re.compile(rf"(?<![\w./-]){year}-(?P<month>0[1-9]|1[0-2])(?![\w/-])")
    return (
        *found,
        _Rule(months, _CENTURIES, lambda match, now: _month_of(now, int(match["year"]), int(match["month"]))),
    )


def _numeric_date(match: re.Match[str], now: datetime) -> _Span:
    start = _midnight(now).replace(year=int(match["year"]), month=int(match["month"]), day=int(match["day"]))
    return start, start + _DAY


def _midnight(now: datetime) -> datetime:
    return now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)


def _month_of(now: datetime, year: int, month: int) -> _Span:
    """Return the span of a month; values of `month` outside 1..12 carry over to other years."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    start = _midnight(now).replace(year=year, month=month, day=1)
    return start, (start + timedelta(days=31)).replace(day=1)


def _unit_span(now: datetime, unit: str, offset: int) -> _Span:
    """Return the day, week, weekend, month, quarter or year that is `offset` units from the current one."""
    today = _midnight(now)
    monday = today - timedelta(days=today.weekday())
    if unit == "day":
        return today + offset * _DAY, today + (offset + 1) * _DAY
    if unit == "week":
        return monday + timedelta(weeks=offset), monday + timedelta(weeks=offset + 1)
    if unit == "weekend":
        return monday + timedelta(weeks=offset, days=5), monday + timedelta(weeks=offset + 1)
    if unit == "month":
        return _month_of(now, now.year, now.month + offset)
    if unit == "quarter":
        first = (now.month - 1) // 3 * 3 + 1 + 3 * offset
        return _month_of(now, now.year, first)[0], _month_of(now, now.year, first + 2)[1]
    return _month_of(now, now.year + offset, 1)[0], _month_of(now, now.year + offset, 12)[1]


def _amount(match: re.Match[str], words: _Words) -> int | None:
    amount = words.numbers[match["n"]] if match["n"] in words.numbers else int(match["n"])
    return amount if 0 < amount <= MOST_AMOUNT else None


def _shifted(now: datetime, unit: str, amount: int) -> _Span:
    """Return the time `amount` units away, with the usual tolerance: "two weeks ago" includes several days."""
    if unit in ("month", "year"):
        return _unit_span(now, unit, amount)
    if unit == "week":
        middle = _midnight(now) + timedelta(weeks=amount)
        return middle - timedelta(days=4), middle + timedelta(days=5)
    if unit == "hour":
        then = now.astimezone(UTC) + timedelta(hours=amount)
        return _unit_span(then.astimezone(now.tzinfo), "day", 0)
    return _unit_span(now, "day", amount)


def _relative(direction: int) -> Callable[[_Words], _Meaning]:
    """Return a rule for a time some units ago (-1) or ahead (1)."""

    def rule(words: _Words) -> _Meaning:
        def meaning(match: re.Match[str], now: datetime) -> _Span | None:
            amount = _amount(match, words)
            return _shifted(now, words.units[match["unit"]], direction * amount) if amount else None

        return meaning

    return rule


_DAYS = {"hour": 1, "day": 1, "week": 7, "month": 31, "year": 366}


def _recent(words: _Words) -> _Meaning:
    """Return a rule for the last units up to today."""

    def meaning(match: re.Match[str], now: datetime) -> _Span | None:
        amount = _amount(match, words)
        if amount is None:
            return None
        tomorrow = _midnight(now) + _DAY
        return tomorrow - timedelta(days=amount * _DAYS[words.units[match["unit"]]] + 1), tomorrow

    return meaning


def _weekday(direction: int) -> Callable[[_Words], _Meaning]:
    """Return a rule for the nearest such weekday: before today (-1), up to today (0), or after today (1)."""

    def rule(words: _Words) -> _Meaning:
        def meaning(match: re.Match[str], now: datetime) -> _Span:
            back = (now.weekday() - words.weekdays[match["weekday"]]) % 7
            if direction < 0:
                back = back or 7
            if direction > 0:
                back -= 7
            return _unit_span(now, "day", -back)

        return meaning

    return rule


def _date(*, last_year: bool = False) -> Callable[[_Words], _Meaning]:
    """Return a rule for a day of a month; without a year, the most likely one."""

    def rule(words: _Words) -> _Meaning:
        def meaning(match: re.Match[str], now: datetime) -> _Span:
            today = _midnight(now)
            month, day = words.months[match["month"]], int(match["day"])
            years = [now.year - 1] if last_year else [now.year - 1, now.year, now.year + 1]
            years = [int(match["year"])] if _named(match, "year") else years
            days = [date for year in years if (date := _on(today, year, month, day)) is not None]
            start = _most_likely(days, today)
            return start, start + _DAY

        return meaning

    return rule


def _day_of_month(_: _Words) -> _Meaning:
    def meaning(match: re.Match[str], now: datetime) -> _Span:
        today, day = _midnight(now), int(match["day"])
        starts = [_month_of(now, now.year, now.month + offset)[0] for offset in (-1, 0, 1)]
        days = [date for start in starts if (date := _on(today, start.year, start.month, day)) is not None]
        start = _most_likely(days, today)
        return start, start + _DAY

    return meaning


def _month(direction: int) -> Callable[[_Words], _Meaning]:
    """Return a rule for a month by name: the last one (-1), the next one (1), or the most likely one (0)."""

    def rule(words: _Words) -> _Meaning:
        def meaning(match: re.Match[str], now: datetime) -> _Span:
            month = words.months[match["month"]]
            if _named(match, "year"):
                return _month_of(now, int(match["year"]), month)
            ahead = (month - now.month) % 12
            if direction < 0:
                return _month_of(now, now.year, now.month + ahead - 12)
            if direction > 0:
                return _month_of(now, now.year, now.month + (ahead or 12))
            return _month_of(now, now.year, now.month + (ahead if 2 * ahead < 12 - ahead else ahead - 12))

        return meaning

    return rule


def _year(_: _Words) -> _Meaning:
    def meaning(match: re.Match[str], now: datetime) -> _Span | None:
        year = int(match["year"])
        if not YEARS[0] <= year <= YEARS[1]:
            return None
        return _month_of(now, year, 1)[0], _month_of(now, year, 12)[1]

    return meaning


def _named(match: re.Match[str], group: str) -> bool:
    return match.groupdict().get(group) is not None


def _on(day: datetime, year: int, month: int, number: int) -> datetime | None:
    try:
        return day.replace(year=year, month=month, day=number)
    except ValueError:
        return None


def _most_likely(days: Sequence[datetime], today: datetime) -> datetime:
    """Return the nearest day, counting the distance to future days twice; raise `ValueError` if `days` is empty."""
    return min(days, key=lambda day: (2 if day > today else 1) * abs((day - today).days))


_MEANINGS: Mapping[str, Callable[[_Words], _Meaning]] = {
    "ago": _relative(-1),
    "recent": _recent,
    "ahead": _relative(1),
    "weekday": _weekday(0),
    "past_weekday": _weekday(-1),
    "next_weekday": _weekday(1),
    "date": _date(),
    "past_date": _date(last_year=True),
    "day_of_month": _day_of_month,
    "month": _month(0),
    "past_month": _month(-1),
    "next_month": _month(1),
    "year": _year,
}
