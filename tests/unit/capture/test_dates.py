"""Days that words name: computed from the time of the turn, or unknown."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from worker.capture.dates import named_day
from worker.domain.kinds import Language

LATE = datetime(2026, 3, 4, 23, 30, tzinfo=timezone(timedelta(hours=2)))


@pytest.mark.parametrize(
    ("words", "day"),
    [
        ("the flight is tomorrow", "2026-03-05"),
        ("übermorgen", "2026-03-06"),
        ("nächsten Freitag", "2026-03-06"),
        ("le 12 mars", "2026-03-12"),
        ("hace 3 días", "2026-03-01"),
        ("on 2027-05-01", "2027-05-01"),
        ("on Friday", None),
        ("am Freitag", None),
        ("on the 5th", None),
        ("12 October", None),
        ("last week", None),
        ("in May", None),
        ("soon", None),
    ],
)
def test_a_day_is_certain_or_unknown(words: str, day: str | None) -> None:
    found = named_day(words, LATE, tuple(Language))
    assert (found and found.date().isoformat()) == day


@pytest.mark.parametrize(("words", "day"), [("tomorrow", None), ("12 March", None), ("1 January 2020", "2020-01-01")])
def test_without_the_time_of_a_turn_only_a_whole_date_counts(words: str, day: str | None) -> None:
    found = named_day(words, None, tuple(Language))
    assert (found and found.date().isoformat()) == day


def test_the_zone_of_the_turn_decides_what_tomorrow_is() -> None:
    assert named_day("tomorrow", LATE, (Language.ENGLISH,)) == datetime(2026, 3, 5, tzinfo=UTC)
    west = datetime(2026, 3, 4, 23, 30, tzinfo=timezone(timedelta(hours=-8)))
    assert named_day("tomorrow", west, (Language.ENGLISH,)) == datetime(2026, 3, 5, tzinfo=UTC)
