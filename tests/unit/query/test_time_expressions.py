"""Times that a message speaks of."""

import time
from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.domain.kinds import Language
from worker.query.time_expressions import MOST_CHARS, time_span

NOW = datetime(2026, 3, 20, 12, 30, tzinfo=UTC)
"""A Friday."""
ALL = tuple(Language)


def days(text: str, now: datetime = NOW) -> tuple[str, str] | None:
    span = time_span(text, now, ALL)
    return (span.since.date().isoformat(), span.until.date().isoformat()) if span else None


LAST_WEEK = ("2026-03-09", "2026-03-15")
LAST_MONTH = ("2026-02-01", "2026-02-28")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("what broke yesterday", ("2026-03-19", "2026-03-19")),
        ("what did Gail say last week about flour", LAST_WEEK),
        ("last week’s numbers", LAST_WEEK),
        ("this month's committee", ("2026-03-01", "2026-03-31")),
        ("this year", ("2026-01-01", "2026-12-31")),
        ("last quarter", ("2025-10-01", "2025-12-31")),
        ("last weekend", ("2026-03-14", "2026-03-15")),
        ("3 days ago", ("2026-03-17", "2026-03-17")),
        ("two months ago", ("2026-01-01", "2026-01-31")),
        ("two weeks ago", ("2026-03-02", "2026-03-10")),
        ("in the last 3 days", ("2026-03-17", "2026-03-20")),
        ("last Thursday night", ("2026-03-19", "2026-03-19")),
        ("last friday", ("2026-03-13", "2026-03-13")),
        ("was sick thursday", ("2026-03-19", "2026-03-19")),
        ("before next Tuesday's release", ("2026-03-24", "2026-03-24")),
        ("on 27 February", ("2026-02-27", "2026-02-27")),
        ("on the 9th", ("2026-03-09", "2026-03-09")),
        ("august 20th review", ("2025-08-20", "2025-08-20")),
        ("12 November 2024", ("2024-11-12", "2024-11-12")),
        ("12 November last year", ("2025-11-12", "2025-11-12")),
        ("12. Januar letzten Jahres", ("2025-01-12", "2025-01-12")),
        ("which options die before the weekend?", ("2026-03-21", "2026-03-22")),
        ("in March", ("2026-03-01", "2026-03-31")),
        ("the October note", ("2025-10-01", "2025-10-31")),
        ("last November", ("2025-11-01", "2025-11-30")),
        ("in 2024", ("2024-01-01", "2024-12-31")),
        ("since 2025-06 only", ("2025-06-01", "2025-06-30")),
        ("2025-06-03 log", ("2025-06-03", "2025-06-03")),
        ("03.06.2025", ("2025-06-03", "2025-06-03")),
        ("la semaine dernière", LAST_WEEK),
        ("il y a deux semaines", ("2026-03-02", "2026-03-10")),
        ("on a décidé quoi lundi", ("2026-03-16", "2026-03-16")),
        ("le 3 février", ("2026-02-03", "2026-02-03")),
        ("letzten Monat", LAST_MONTH),
        ("vor drei Tagen", ("2026-03-17", "2026-03-17")),
        ("am 3. Februar", ("2026-02-03", "2026-02-03")),
        ("die letzte Woche", LAST_WEEK),
        ("la semana pasada", LAST_WEEK),
        ("hace 3 días", ("2026-03-17", "2026-03-17")),
        ("el lunes pasado", ("2026-03-16", "2026-03-16")),
        ("3 de febrero de 2026", ("2026-02-03", "2026-02-03")),
        ("na semana passada", LAST_WEEK),
        ("há dois meses", ("2026-01-01", "2026-01-31")),
        ("segunda-feira passada", ("2026-03-16", "2026-03-16")),
        ("la settimana scorsa", LAST_WEEK),
        ("tre giorni fa", ("2026-03-17", "2026-03-17")),
        ("lunedì scorso", ("2026-03-16", "2026-03-16")),
        ("先週の会議", LAST_WEEK),
        ("3日前に", ("2026-03-17", "2026-03-17")),
        ("2月3日の議事録", ("2026-02-03", "2026-02-03")),
        ("昨日", ("2026-03-19", "2026-03-19")),
        ("上周说了什么", LAST_WEEK),
        ("三天前", ("2026-03-17", "2026-03-17")),
        ("2025年6月的账单", ("2025-06-01", "2025-06-30")),
        ("上个月", LAST_MONTH),
        ("지난주 회의", LAST_WEEK),
        ("3일 전에", ("2026-03-17", "2026-03-17")),
        ("지난달", LAST_MONTH),
    ],
)
def test_expressions(text: str, expected: tuple[str, str]) -> None:
    assert days(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "before we had nats",
        "may I march on",
        "the second one, please",
        "version 2025.6",
        "port 2025",
        "a friend of mine sat there",
        "0 days ago",
        "INV-2025-06-1188",
        "quarta",
        "secondly",
        "",
    ],
)
def test_what_is_no_time(text: str) -> None:
    assert time_span(text, NOW, ALL) is None


def test_text_goes_on_without_the_expression() -> None:
    span = time_span("what was wrong with last week's Héron drop?", NOW, ALL)
    assert span is not None
    assert span.text == "what was wrong with Héron drop?"
    assert span.expression == "last week's"


def test_bounds_are_in_utc_and_days_in_the_zone_of_now() -> None:
    span = time_span("yesterday", datetime(2026, 3, 20, 1, tzinfo=timezone(timedelta(hours=9))), ALL)
    assert span is not None
    assert span.since == datetime(2026, 3, 18, 15, tzinfo=UTC)
    assert span.until == datetime(2026, 3, 19, 14, 59, 59, 999999, tzinfo=UTC)


def test_languages_limit_what_is_understood() -> None:
    assert time_span("vor drei Tagen", NOW, (Language.ENGLISH,)) is None
    assert time_span("3 days ago", NOW, (Language.ENGLISH,)) is not None


@given(
    text=st.text(max_size=200)
    | st.lists(st.sampled_from(["last", "week", "3", "ago", "may", "12", "2031", "前", "日"])).map(" ".join),
    now=st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)),
)
def test_every_span_is_in_order(text: str, now: datetime) -> None:
    span = time_span(text, now, ALL)
    if span is not None:
        assert span.since < span.until
        assert span.expression
        assert span.until - span.since < timedelta(days=400 * 366 + 2)


@given(
    st.dates(date(1995, 1, 1), date(2090, 12, 31)),
    st.sampled_from(["{:%Y-%m-%d}", "{:%d.%m.%Y}", "{:%d %B %Y}", "{:%B %d, %Y}"]),
)
def test_a_full_date_means_its_day(day: date, shape: str) -> None:
    assert days(f"note of {shape.format(day)} please") == (day.isoformat(), day.isoformat())


@pytest.mark.parametrize(
    "text", ["in a couple of " * 500, "1 " * 9000, "last " * 5000, "2025-" * 4000, "年" * 9000, "vor " * 5000]
)
def test_no_text_is_slow(text: str) -> None:
    time_span("warm", NOW, ALL)
    started = time.process_time()
    time_span(text, NOW, ALL)
    assert time.process_time() - started < 0.5
    assert len(text) > MOST_CHARS
