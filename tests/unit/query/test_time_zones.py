"""Days in messages and filters as the clock of the user's time zone has them."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from worker.query.time_expressions import time_span
from worker.query.time_ranges import time_range
from worker.settings.injection import InjectionConfig

LANGUAGES = InjectionConfig().languages


@pytest.mark.parametrize(
    ("zone", "now", "said", "since", "until"),
    [
        # it is already the next day in Zurich, and still the day before in New York
        ("Europe/Zurich", "2026-07-10T22:30Z", "yesterday", "2026-07-09T22:00Z", "2026-07-10T22:00Z"),
        ("America/New_York", "2026-07-10T02:00Z", "yesterday", "2026-07-08T04:00Z", "2026-07-09T04:00Z"),
        ("UTC", "2026-07-10T02:00Z", "yesterday", "2026-07-09T00:00Z", "2026-07-10T00:00Z"),
        # 23 and 25 hours: clocks go forward on 29 March and back on 25 October
        ("Europe/Zurich", "2026-03-30T10:00Z", "yesterday", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
        ("Europe/Zurich", "2026-10-26T10:00Z", "yesterday", "2026-10-24T22:00Z", "2026-10-25T23:00Z"),
        # midnight does not exist, or exists twice
        ("Asia/Beirut", "2024-03-31T12:00Z", "today", "2024-03-30T22:00Z", "2024-03-31T21:00Z"),
        ("America/Havana", "2025-11-02T05:30Z", "today", "2025-11-02T04:00Z", "2025-11-03T05:00Z"),
        # the year ends hours earlier or later than in UTC
        ("Pacific/Kiritimati", "2025-12-31T11:00Z", "this year", "2025-12-31T10:00Z", "2026-12-31T10:00Z"),
        ("America/New_York", "2026-01-01T03:00Z", "this month", "2025-12-01T05:00Z", "2026-01-01T05:00Z"),
        ("America/New_York", "2026-01-01T03:00Z", "last Friday", "2025-12-26T05:00Z", "2025-12-27T05:00Z"),
        ("Europe/Zurich", "2026-06-01T10:00Z", "in March", "2026-02-28T23:00Z", "2026-03-31T22:00Z"),
        ("Europe/Zurich", "2026-03-29T01:30Z", "two hours ago", "2026-03-28T23:00Z", "2026-03-29T22:00Z"),
    ],
)
def test_days_begin_at_midnight_of_the_zone(zone: str, now: str, said: str, since: str, until: str) -> None:
    local = datetime.fromisoformat(now).astimezone(ZoneInfo(zone))
    span = time_span(f"What did we say {said}?", local, LANGUAGES)
    assert span is not None
    assert span.since == datetime.fromisoformat(since)
    assert (datetime.fromisoformat(until) - span.until).total_seconds() == pytest.approx(1e-6)
    assert span.since.tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("2025", "2025-01-01T05:00Z"),
        ("2026-03-01", "2026-03-01T05:00Z"),
        ("2026-03-01T09:30", "2026-03-01T14:30Z"),
        ("2026-03-01T09:30Z", "2026-03-01T09:30Z"),
        ("since yesterday", "2026-03-19T04:00Z"),
    ],
)
def test_a_filter_without_a_zone_is_in_that_of_the_request(text: str, since: str) -> None:
    now = datetime(2026, 3, 20, 12, tzinfo=ZoneInfo("America/New_York"))
    found = time_range(text, now, LANGUAGES)
    assert found is not None
    assert found.since == datetime.fromisoformat(since)
