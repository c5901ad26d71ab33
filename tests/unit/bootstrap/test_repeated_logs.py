"""The same failure of the service is logged once, then counted."""

import json

import pytest
import structlog

from hooks.repeated import EVERY_S, MOST_KINDS
from worker.bootstrap.logs import configure_logging
from worker.bootstrap.repeated_logs import Event, RepeatedLogs
from worker.settings.service import ServiceSettings


class Log:
    """What passes the processor, at a time that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[Event] = []
        self.processor = RepeatedLogs(self.lines.append, lambda: self.now)

    def write(self, event: str, level: str = "warning", **fields: object) -> None:
        try:
            self.lines.append(self.processor(None, level, {"event": event, "level": level, **fields}))
        except structlog.DropEvent:
            return


def test_a_failure_that_goes_on_is_logged_once_a_minute_with_its_count() -> None:
    log = Log()
    for number in range(5):
        log.write("store_unavailable", error="down", after_s=number)
    assert [line["after_s"] for line in log.lines] == [0]
    log.now = EVERY_S - 1
    log.write("store_unavailable", error="down")
    log.now = EVERY_S
    log.write("store_unavailable", error="down")
    assert log.lines[-1]["repeated"] == 5


def test_other_failures_and_plain_lines_are_not_held_back() -> None:
    log = Log()
    for _ in range(2):
        log.write("job_failed", reason="deadline")
        log.write("job_failed", reason="busy")
        log.write("answered", level="info")
    assert [line.get("reason") for line in log.lines] == ["deadline", "busy", None, None]


def test_the_count_is_logged_when_a_failure_has_ended() -> None:
    log = Log()
    for _ in range(3):
        log.write("redis_lost", error="ConnectionError")
    log.now = EVERY_S + 1
    log.write("answered", level="info")
    ended, answered = log.lines[1:]
    assert (ended["event"], ended["repeated"], ended["ended"]) == ("redis_lost", 2, True)
    assert answered["event"] == "answered"
    log.write("redis_lost", error="ConnectionError")
    assert "repeated" not in log.lines[-1]


def test_several_failures_that_have_ended_are_each_told_once_through_the_same_log() -> None:
    log = Log()
    log.processor = RepeatedLogs(lambda event: log.write(**event), lambda: log.now)
    for event in ("redis_lost", "redis_lost", "answer_lost", "store_lost", "store_lost"):
        log.write(event)
    log.now = EVERY_S + 1
    log.write("answered", level="info")
    log.write("redis_lost")
    told = [(line["event"], line.get("ended", False)) for line in log.lines[3:]]
    assert told == [("redis_lost", True), ("store_lost", True), ("answered", False), ("redis_lost", False)]


def test_few_failures_are_kept() -> None:
    log = Log()
    for number in range(3 * MOST_KINDS):
        log.write("job_failed", reason=str(number))
    assert len(log.processor.failures) == MOST_KINDS


def test_the_service_logs_so(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging(ServiceSettings(log_format="json"))
    for number in range(3):
        structlog.get_logger().warning("store_unavailable", error="down", number=number)
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["event"], line["number"]) for line in lines] == [("store_unavailable", 0)]
