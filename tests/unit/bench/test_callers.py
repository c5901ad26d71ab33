"""The benchmark of many callers: its targets, its charts, and its section in the documentation."""

from bench.callers import Tally, _result
from bench.command import WITH_SECTION
from bench.measure import Report
from bench.report import charts, with_section
from hooks import Engine, InjectionResult, Outcome, Reason
from tests.support.paths import ROOT
from tests.unit.bench.test_growth import REPORT

ANSWER = InjectionResult(outcome=Outcome.INJECTED, engine=Engine.RELEVANCE_MODEL)
BUSY = InjectionResult(outcome=Outcome.TIMEOUT, reason=Reason.BUSY)


def tally(milliseconds: float, answered: int, refused: int = 0) -> Tally:
    made = Tally(seconds=10.0)
    for _ in range(answered):
        made.add(ANSWER, milliseconds)
    for _ in range(refused):
        made.add(BUSY, 1.0)
    return made


CLOSED = {1: tally(20.0, 400), 8: tally(100.0, 800), 40: tally(500.0, 790, 3), 200: tally(2000.0, 700, 90)}
RESULT = _result(10_000, CLOSED, {0.5: tally(30.0, 400)}, tally(25.0, 100), tally(100.0, 90), tally(900.0, 700))


def test_what_is_lost_refused_and_delayed_is_compared_with_its_target() -> None:
    assert [(check.measured, check.passed) for check in RESULT.checks] == [(3, False), (0.88, False), (4.0, False)]


def test_the_charts_have_a_point_for_each_number_of_callers() -> None:
    rate, latency = RESULT.curves
    assert rate.curves["service"]["answers/s"] == ((1.0, 40.0), (8.0, 80.0), (40.0, 79.0), (200.0, 70.0))
    assert [point for point, _ in latency.curves["service"]["p95"]] == [1.0, 8.0, 40.0, 200.0]
    nobody = _result(10, CLOSED | {200: tally(0.0, 0, 9)}, {}, tally(25.0, 9), tally(50.0, 9), tally(1.0, 0))
    assert len(nobody.curves[0].curves["service"]["answers/s"]) == 3


def test_the_page_shows_targets_and_charts() -> None:
    page = (ROOT / "docs" / WITH_SECTION["callers"]).read_text(encoding="utf-8")
    report: Report = REPORT.model_copy(update={"result": RESULT})
    changed = with_section(page, report)
    assert "| 40 callers, lost | ≤ 0 calls | 3.0 calls | **missed** |" in changed
    for image in charts(RESULT):
        assert f"](img/{image})" in changed
        assert (ROOT / "docs/img" / image).exists()
    assert changed.count("\n## ") == page.count("\n## ")
