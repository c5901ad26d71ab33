"""The same failure is logged once, then counted."""

import logging

import pytest

from hooks.repeated import EVERY_S, MOST_KINDS, RepeatedFailures


def test_a_failure_that_goes_on_is_logged_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    failures = RepeatedFailures(logging.getLogger("test"), lambda: now[0])
    for _ in range(5):
        failures.warn("no memory injected: no_worker")
    failures.warn("no memory injected: busy")
    assert caplog.messages == ["no memory injected: no_worker", "no memory injected: busy"]
    now[0] = EVERY_S
    failures.warn("no memory injected: no_worker")
    assert caplog.messages[-1] == "no memory injected: no_worker (4 more times since the last report)"
    failures.warn("no memory injected: no_worker")
    assert len(caplog.messages) == 3


def test_few_failures_are_kept() -> None:
    failures = RepeatedFailures(logging.getLogger("test"))
    for number in range(5 * MOST_KINDS):
        failures.warn(str(number))
    assert len(failures._failures) == MOST_KINDS
