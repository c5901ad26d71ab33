"""Charts and pages of evaluations: well-formed whatever is in them."""

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.contract import Engine, Outcome
from worker.tuning.evals.charts import Row, distribution, intervals, ticks
from worker.tuning.evals.comparison import compare
from worker.tuning.evals.measures import Measure, summary
from worker.tuning.evals.number_text import difference, estimate, number
from worker.tuning.evals.page import comparison_page, report_page
from worker.tuning.evals.results import Report, Setup, TaskRun

numbers = st.floats(-10, 10, allow_nan=False)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40)


@given(numbers, st.floats(1e-6, 20))
def test_ticks_are_round_and_inside(least: float, span: float) -> None:
    found = ticks(least, least + span)
    assert found == sorted(found)
    assert len(found) <= 11
    assert all(least - 1e-6 <= tick <= least + span + 1e-6 for tick in found)
    assert len(found) >= 2


@given(st.lists(st.tuples(texts, numbers, st.floats(0, 5), st.booleans()), max_size=6))
def test_a_chart_is_an_image_with_everything_inside(rows: list[tuple[str, float, float, bool]]) -> None:
    drawn = [Row(label, at, math.nan if lost else at - by, at + by, label) for label, at, by, lost in rows]
    image = ElementTree.fromstring(intervals(drawn, -10.0, 10.0, zero=True))
    assert len(image.findall("circle")) == len(rows)
    width = float(image.attrib["width"])
    places = [float(line.attrib[name]) for line in image.iter("line") for name in ("x1", "x2")]
    assert all(0 <= place <= width for place in places)


@given(st.lists(st.floats(0, 1e5), min_size=1, max_size=30))
def test_a_distribution_rises_to_the_top(values: list[float]) -> None:
    image = ElementTree.fromstring(distribution(values, [("p50", values[0])]))
    (curve,) = image.findall("polyline")
    heights = [float(point.split(",")[1]) for point in curve.attrib["points"].split()]
    assert heights == sorted(heights, reverse=True)
    assert heights[-1] == 10.0


def report(runs: list[TaskRun], words: str) -> Report:
    setup = Setup(prompt=words, prompt_hash="ab", model=words, embedder="e", pipeline="", worlds={"w": "1"})
    texts = {"w": dict.fromkeys(("a", "t0", "t1"), words)}
    return Report(
        id="r", at="2026-03-01T00:00:00Z", setup=setup, runs=tuple(runs), messages=texts, memories=texts, missing=1
    )


@pytest.mark.parametrize("words", ["", "<script>alert('&')</script>", "Zoë’s ‹note›", "]]>"])
def test_pages_show_any_text_as_text(words: str) -> None:
    runs = [
        TaskRun(
            world="w",
            task=f"t{n}",
            category=words or "c",
            essential=("a",),
            injected=("a", "b")[:n],
            forbidden=("b",),
            outcome=Outcome.INJECTED,
            engine=Engine.LLM,
            elapsed_ms=n,
        )
        for n in range(2)
    ]
    before, after = report(runs, words), report([run.model_copy(update={"injected": ("b",)}) for run in runs], words)
    rng = np.random.default_rng(1)
    found = {"": summary(runs, rng, 50), words or "c": summary(runs[:1], rng, 50)}
    for page in (report_page(before, found), comparison_page(before, after, compare(before, after, rng, 50))):
        body = page.partition("<body>")[2].partition("</body>")[0]
        root = ElementTree.fromstring(f"<body>{body}</body>".replace("<br>", "<br/>"))
        assert not list(root.iter("script"))
        assert words in "".join(root.itertext())


def test_numbers_are_told_in_their_units() -> None:
    assert number(Measure.PRECISION, 0.5) == "0.500"
    assert number(Measure.P95, 812.4) == "812 ms"
    assert number(Measure.COST, 0.0002) == "0.200"
    assert number(Measure.RECALL, math.nan) == "?"
    assert number(Measure.TOKENS, -3, signed=True) == "-3"
    assert estimate(Measure.RECALL, None) == ""
    runs = [TaskRun(world="w", task="t", category="c", essential=("a",), outcome=Outcome.NONE_RELEVANT)]
    before = report(runs, "x")
    after = report([runs[0].model_copy(update={"injected": ("a",)})], "x")
    found = {one.measure: one for one in compare(before, after, np.random.default_rng(1), 50).differences}
    assert difference(found[Measure.RECALL]) == "+1.000 (+1.000 to +1.000)"
