"""When work that failed is tried again."""

from datetime import UTC, datetime, timedelta

import pytest

from hooks.contract import Reason
from worker.domain.errors import ModelError, OperationError, QueueError, StoreError
from worker.operations.retrying import Outage, Pause, is_faulty

NOW = datetime(2026, 3, 4, 9, tzinfo=UTC)


def test_a_pause_doubles_up_to_the_longest() -> None:
    pause = Pause(first=60.0, longest=3600.0)
    assert [pause.after(times).total_seconds() for times in (1, 2, 3, 7, 10_000)] == [60, 120, 240, 3600, 3600]


def test_an_outage_rests_longer_each_time_until_it_ends() -> None:
    outage = Outage(Pause(first=60.0))
    assert not outage.rests(NOW)
    assert outage.lasts(NOW) == NOW + timedelta(seconds=60)
    assert outage.rests(NOW + timedelta(seconds=59))
    assert not outage.rests(NOW + timedelta(seconds=60))
    assert outage.lasts(NOW) == NOW + timedelta(seconds=120)
    outage.ends()
    assert not outage.rests(NOW)


@pytest.mark.parametrize(
    ("error", "faulty"),
    [
        (ModelError(Reason.MODEL_UNPARSEABLE, ""), True),
        (ModelError(Reason.MODEL_REFUSED, ""), True),
        (OperationError(Reason.BAD_REQUEST, ""), True),
        (FileNotFoundError(), True),
        (ModelError(Reason.MODEL_UNREACHABLE, ""), False),
        (ModelError(Reason.MODEL_ERROR, ""), False),
        (QueueError(Reason.QUEUE_UNAVAILABLE, ""), False),
        (StoreError(""), False),
    ],
)
def test_what_is_away_is_no_fault_of_the_work(error: Exception, faulty: bool) -> None:
    assert is_faulty(error) is faulty
