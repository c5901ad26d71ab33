"""Times as a search filter."""

from datetime import UTC, datetime

import pytest

from worker.query.time_ranges import time_range
from worker.settings.injection import InjectionConfig

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("2026-03-01", "2026-03-01", "2026-03-01"),
        ("2026-03", "2026-03-01", "2026-03-31"),
        (" 2025 ", "2025-01-01", "2025-12-31"),
        ("in 2025", "2025-01-01", "2025-12-31"),
        ("March", "2026-03-01", "2026-03-31"),
        ("last week", "2026-03-09", "2026-03-15"),
        ("la semaine dernière", "2026-03-09", "2026-03-15"),
        ("the last 7 days", "2026-03-13", "2026-03-20"),
        ("2026-01/2026-02", "2026-01-01", "2026-02-28"),
        ("2026-03-01..2026-03-05", "2026-03-01", "2026-03-05"),
        ("May 2025 to June 2025", "2025-05-01", "2025-06-30"),
        ("2026-03-01/", "2026-03-01", None),
        ("*/2026-03-01", None, "2026-03-01"),
        ("since last week", "2026-03-09", None),
        ("Before March", None, "2026-02-28"),
        ("after 2026-02-01", "2026-02-02", None),
        ("until yesterday", None, "2026-03-19"),
    ],
)
def test_a_time_is_read(text: str, since: str | None, until: str | None) -> None:
    found = time_range(text, NOW, InjectionConfig().languages)
    assert found is not None
    assert found.since == (datetime.fromisoformat(f"{since}T00:00:00Z") if since else None)
    assert found.until == (datetime.fromisoformat(f"{until}T23:59:59.999999Z") if until else None)


def test_a_range_of_exact_times_is_read() -> None:
    found = time_range("2026-03-01T10:00:00+01:00/2026-03-01T12:00", NOW, ())
    assert found is not None
    assert (found.since, found.until) == (datetime(2026, 3, 1, 9, tzinfo=UTC), datetime(2026, 3, 1, 12, tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        *("", "/", "..", "*/*", "banana", "sometime", "2026-13-45", "2026-02-31", "1066", "sometime in March maybe"),
        *("2026-03-31/2026-03-01", "since banana", "2026-03-01/banana", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_what_is_no_time_is_not_guessed(text: str) -> None:
    assert time_range(text, NOW, InjectionConfig().languages) is None
