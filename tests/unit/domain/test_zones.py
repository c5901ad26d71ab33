"""Time zones by name, and the day that a time belongs to in each."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.domain.memory import Memory, MemoryFilter
from worker.domain.zones import day_in, in_zone, is_within, widened, zone_name, zone_of
from worker.query.time_expressions import time_span
from worker.settings.injection import InjectionConfig
from worker.text.rendering import days_anywhere, shown_day

ZONES = ("UTC", "Europe/Zurich", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago", "America/Havana")
ZONES += ("Asia/Kathmandu", "Australia/Lord_Howe", "Asia/Beirut")

zones = st.sampled_from(ZONES).map(zone_of)
moments = st.datetimes(datetime(1995, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("Europe/Zuerich", "did you mean Europe/Zurich?"),
        ("europe/zurich", "did you mean Europe/Zurich?"),
        ("new york", "did you mean America/New_York?"),
        ("Europe", "use an IANA name such as Europe/Zurich or UTC"),
        ("../etc/passwd", "use an IANA name"),
        ("+02:00", "use an IANA name"),
        ("", "use an IANA name"),
        ("x\0y", "use an IANA name"),
        ("a" * 5000, "use an IANA name"),
    ],
)
def test_an_unknown_zone_says_what_to_write(name: str, hint: str) -> None:
    with pytest.raises(ValueError, match="unknown time zone") as raised:
        zone_of(name)
    assert hint in str(raised.value)
    assert zone_name(zone_of("Europe/Zurich")) == "Europe/Zurich"


def test_settings_refuse_an_unknown_zone() -> None:
    with pytest.raises(ValueError, match="did you mean Europe/Zurich"):
        InjectionConfig(time_zone="Europe/Zuerich")


@pytest.mark.parametrize("year", [1, 9999])
def test_a_time_at_the_end_of_time_stays_within_it(year: int) -> None:
    moment = datetime(year, 1 if year == 1 else 12, 1 if year == 1 else 31, 23 if year > 1 else 0, 30)
    for zone in map(zone_of, ZONES):
        assert in_zone(moment, zone).tzinfo is UTC
        assert day_in(moment.replace(tzinfo=UTC), zone)
        assert widened(moment.replace(tzinfo=UTC), moment.replace(tzinfo=UTC), zone)


@given(moments, zones)
def test_a_memory_is_found_by_the_day_that_is_shown_with_it(moment: datetime, zone: ZoneInfo) -> None:
    day = day_in(moment, zone)
    memory = Memory(id="m", content="c", created_at=moment)
    noon = datetime(day.year, day.month, day.day, 12, tzinfo=zone)
    asked = (
        ("yesterday", noon + timedelta(days=1)),
        ("today", noon),
        (f"on {day:%Y-%m-%d}", noon),
        (f"in {day:%Y-%m}", noon),
    )
    for said, now in asked:
        span = time_span(said, now, InjectionConfig().languages)
        assert span is not None
        where = MemoryFilter(since=span.since, until=span.until, zone=zone)
        assert where.has_time_of(memory)
        first, last = widened(span.since, span.until, zone)
        assert first is not None
        assert last is not None
        assert first <= moment <= last, "the store leaves out nothing that belongs to the day"
    assert shown_day(memory, zone) in days_anywhere(memory)


@given(moments, zones)
def test_a_memory_is_of_one_day_only(moment: datetime, zone: ZoneInfo) -> None:
    day = day_in(moment, zone)
    for other in (day - timedelta(days=1), day + timedelta(days=1)):
        span = time_span(f"{other:%Y-%m-%d}", datetime(2026, 1, 1, tzinfo=zone), InjectionConfig().languages)
        assert span is not None
        assert not is_within([moment], span.since, span.until, zone)


@given(st.dates(datetime(1995, 1, 1).date(), datetime(2089, 1, 1).date()), zones)
def test_a_day_alone_is_that_day_everywhere(day: datetime, zone: ZoneInfo) -> None:
    assert day_in(datetime(day.year, day.month, day.day, tzinfo=UTC), zone) == day
