"""Resampling and measuring: what must hold whatever the numbers are."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.contract import Engine, Outcome
from worker.tuning.evals.acceptance import MeasureComparison, accept
from worker.tuning.evals.comparison import Direction, EvaluationComparison, compare
from worker.tuning.evals.measures import QUANTILES, Measure, MeasureTable, summary
from worker.tuning.evals.number_text import difference, number
from worker.tuning.evals.resampling import interval, quantile, quantile_draws, ratio_draws, task_weights
from worker.tuning.evals.results import Report, Setup, TaskRun

IDS = ("a", "b", "c", "d")
CATEGORIES = ("single", "greeting")
DRAWS = 300


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def run(task: str, injected: Sequence[str] = (), world: str = "w", **fields: Any) -> TaskRun:
    came = {"outcome": Outcome.INJECTED if injected else Outcome.NONE_RELEVANT, "engine": Engine.LLM}
    return TaskRun(world=world, task=task, injected=tuple(injected), **{"category": "single", **came, **fields})


def report(runs: Sequence[TaskRun], name: str = "r", worlds: dict[str, str] | None = None) -> Report:
    hashes = worlds or {one.world: one.world for one in runs}
    setup = Setup(prompt="triage@1", prompt_hash="", model="m", embedder="minilm", pipeline="", worlds=hashes)
    return Report(id=name, at="2026-03-01T00:00:00Z", setup=setup, runs=tuple(runs))


ids = st.lists(st.sampled_from(IDS), unique=True, max_size=3).map(tuple)


@st.composite
def evaluations(draw: st.DrawFn, worlds: int = 3) -> list[TaskRun]:
    """Runs with any labels and any injections."""
    found = []
    for world in range(draw(st.integers(1, worlds))):
        for task in range(draw(st.integers(1, 6))):
            labels = {name: draw(ids) for name in ("essential", "useful", "forbidden")}
            found.append(
                run(
                    f"t{task}",
                    draw(ids),
                    f"w{world}",
                    category=draw(st.sampled_from(CATEGORIES)),
                    degraded=draw(st.booleans()),
                    elapsed_ms=draw(st.floats(0.1, 5000)),
                    input_tokens=draw(st.integers(0, 900)),
                    cost=draw(st.none() | st.floats(0, 0.01)),
                    **labels,
                )
            )
    return found


@given(evaluations())
def test_measures_are_what_their_names_say(runs: list[TaskRun]) -> None:
    found = summary(runs, rng(), DRAWS)
    rates = (Measure.PRECISION, Measure.RECALL, Measure.CLEAN, Measure.FORBIDDEN, Measure.FALLBACK)
    assert all(0 <= found[one].value <= 1 for one in rates if one in found)
    injected = sum(len(one.injected) for one in runs)
    wanted = sum(len(set(one.injected) & one.relevant) for one in runs)
    assert (Measure.PRECISION in found) == (injected > 0)
    if injected:
        assert found[Measure.PRECISION].value == pytest.approx(wanted / injected)
    quiet = [one for one in runs if not one.relevant]
    assert (Measure.CLEAN in found) == bool(quiet)
    if quiet:
        assert found[Measure.CLEAN].value == pytest.approx(sum(not one.injected for one in quiet) / len(quiet))
    times = sorted(one.elapsed_ms for one in runs)
    assert found[Measure.P50].value == times[math.ceil(len(times) / 2) - 1]
    assert found[Measure.P95].value in times


@given(evaluations())
def test_intervals_are_of_numbers_that_are_there(runs: list[TaskRun]) -> None:
    found = summary(runs, rng(), DRAWS)
    times = [one.elapsed_ms for one in runs]
    for measure, one in found.items():
        if not math.isnan(one.low):
            assert one.low <= one.high
            assert measure not in QUANTILES or min(times) <= one.low <= one.high <= max(times)


@given(evaluations(), st.randoms(use_true_random=False))
def test_the_order_of_runs_does_not_matter(runs: list[TaskRun], order: Any) -> None:
    other = list(runs)
    order.shuffle(other)
    assert summary(runs, rng(), DRAWS) == summary(other, rng(), DRAWS)


@given(evaluations(), st.integers(2, 4))
def test_repeats_that_say_the_same_change_no_number(runs: list[TaskRun], times: int) -> None:
    repeated = [one.model_copy(update={"repeat": number}) for one in runs for number in range(times)]
    once, often = summary(runs, rng(), DRAWS), summary(repeated, rng(), DRAWS)
    assert set(once) == set(often)
    for measure, found in once.items():
        assert often[measure].value == pytest.approx(found.value)
        if measure not in QUANTILES:
            assert often[measure].low == pytest.approx(found.low, nan_ok=True)
            assert often[measure].high == pytest.approx(found.high, nan_ok=True)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_weights_are_counts_of_draws(groups: list[int]) -> None:
    weights = task_weights(groups, DRAWS, rng())
    assert weights.shape == (DRAWS, sum(groups))
    assert (weights == np.round(weights)).all()
    assert (weights >= 0).all()
    if len(set(groups)) == 1:
        assert (weights.sum(axis=1) == sum(groups)).all()
    assert weights.mean(axis=0) == pytest.approx(1.0, abs=0.75)


def test_worlds_are_drawn_as_a_whole() -> None:
    weights = task_weights([5, 5], 400, rng())
    per_world = weights.reshape(400, 2, 5).sum(axis=2)
    assert set(np.unique(per_world)) == {0.0, 5.0, 10.0}
    alone = task_weights([10], 400, rng())
    assert (alone.sum(axis=1) == 10).all()


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Of 200 samples of 60 tasks with a rate of .3, about 95 % of the intervals hold it."""
    source, held = np.random.default_rng(3), 0
    for _ in range(200):
        hits = (source.random(60) < 0.3).astype(np.float64)
        low, high = interval(ratio_draws(task_weights([60], 400, source), hits, np.ones(60)))
        held += low <= 0.3 <= high
    assert 180 <= held <= 200


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=30), st.floats(0.01, 1.0))
def test_a_quantile_is_the_same_where_each_is_drawn_once(values: list[float], share: float) -> None:
    numbers = np.array(values)
    (drawn,) = quantile_draws(np.ones((1, len(values))), numbers, share)
    assert drawn == quantile(numbers, share)


def test_nothing_drawn_is_no_number() -> None:
    assert np.isnan(quantile_draws(np.zeros((2, 3)), np.ones(3), 0.5)).all()
    assert np.isnan(ratio_draws(np.zeros((2, 3)), np.ones(3), np.ones(3))).all()
    assert all(map(math.isnan, interval(np.array([np.nan, np.nan]))))
    assert MeasureTable.of([]).value(Measure.P50) is None


def compared(before: Sequence[TaskRun], after: Sequence[TaskRun]) -> EvaluationComparison:
    return compare(report(before, "before"), report(after, "after"), rng(), DRAWS)


def improved(runs: Sequence[TaskRun], injected: Sequence[str]) -> list[TaskRun]:
    return [one.model_copy(update={"injected": tuple(injected)}) for one in runs]


@given(evaluations())
def test_an_evaluation_does_not_differ_from_itself(runs: list[TaskRun]) -> None:
    found = compared(runs, runs)
    assert {one.direction for one in found.differences} <= {Direction.SAME, Direction.UNCLEAR}
    assert all(one.difference == 0 for one in found.differences)
    assert found.changes == ()
    assert not accept(found).passes


@given(evaluations(), ids)
def test_the_other_way_round_is_the_opposite(runs: list[TaskRun], injected: tuple[str, ...]) -> None:
    other = improved(runs, injected)
    there, back = compared(runs, other), compared(other, runs)
    for one, two in zip(there.differences, back.differences, strict=True):
        assert one.difference == pytest.approx(-two.difference)
        assert one.low == pytest.approx(-two.high, nan_ok=True)
    assert [(one.added, one.removed) for one in sorted(there.changes, key=lambda c: (c.world, c.task))] == [
        (two.removed, two.added) for two in sorted(back.changes, key=lambda c: (c.world, c.task))
    ]


def test_pairing_finds_what_single_intervals_hide() -> None:
    """Tasks differ much from each other; one in five is answered better and none worse."""
    wanted = {"essential": ("a", "b", "c", "d")}
    before = [run(f"t{n}", IDS[: n % 4], f"w{n % 4}", **wanted) for n in range(80)]
    after = [one.model_copy(update={"injected": IDS}) if n % 5 == 0 else one for n, one in enumerate(before)]
    recall = next(one for one in compared(before, after).differences if one.measure is Measure.RECALL)
    assert recall.direction is Direction.BETTER
    single = summary(before, rng(), DRAWS)[Measure.RECALL]
    assert recall.high - recall.low < single.high - single.low


def test_changes_come_with_the_worse_ones_first() -> None:
    before = [run("good", [], essential=("a",)), run("bad", ["a"], essential=("a",)), run("same", ["b"])]
    after = improved(before[:1], ["a"]) + improved(before[1:2], ["c"]) + before[2:]
    found = compared(before, after).changes
    assert [(one.task, one.direction, one.added, one.removed) for one in found] == [
        ("bad", Direction.WORSE, ("c",), ("a",)),
        ("good", Direction.BETTER, ("a",), ()),
    ]


def test_a_forbidden_memory_weighs_more_than_a_missing_one() -> None:
    before = [run("t", [], essential=("a",), forbidden=("f",))]
    (change,) = compared(before, improved(before, ["a", "f"])).changes
    assert change.direction is Direction.WORSE


def test_only_what_both_have_is_compared() -> None:
    before, after = [run("one"), run("two")], [run("two"), run("three")]
    found = compared(before, after)
    assert (found.tasks, found.only_before, found.only_after) == (1, 1, 1)
    assert "the two were not evaluated on the same tasks" in accept(found).reasons


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        (report([run("t")]), report([run("u")]), "no task in common"),
        (report([run("t")], worlds={"w": "1"}), report([run("t")], worlds={"w": "2"}), "changed between the two"),
    ],
)
def test_what_cannot_be_compared_is_said(before: Report, after: Report, words: str) -> None:
    with pytest.raises(Exception, match=words):
        compare(before, after, rng(), DRAWS)


def many(injected: Sequence[str], count: int = 80, **fields: Any) -> list[TaskRun]:
    return [run(f"t{n}", injected, f"w{n % 4}", essential=("a",), **fields) for n in range(count)]


def standings(found: EvaluationComparison) -> dict[Measure, MeasureComparison]:
    return {one.difference.measure: one.standing for one in accept(found).findings}


def test_a_prompt_passes_that_is_better_and_nowhere_worse() -> None:
    found = compared(many(["a", "b"]), many(["a"]))
    assert standings(found)[Measure.PRECISION] is MeasureComparison.BETTER
    assert accept(found).passes


def test_a_prompt_fails_that_is_better_here_and_worse_there() -> None:
    found = compared(many(["a", "b"]), many(["a"])[:40] + many([])[40:])
    assert standings(found)[Measure.RECALL] is MeasureComparison.WORSE
    assert accept(found).reasons == ("recall_essential: worse",)


def test_a_prompt_needs_proof_on_every_measure() -> None:
    """Recall is a point the same: as many are found as are lost. Its interval does not show that it holds."""
    before = many(["a", "b"])[:70] + many([])[70:]
    after = many([])[:10] + many(["a"])[10:]
    found = compared(before, after)
    recall = next(one for one in found.differences if one.measure is Measure.RECALL)
    assert recall.difference == 0
    assert standings(found)[Measure.RECALL] is MeasureComparison.UNPROVEN
    assert not accept(found).passes


def test_a_time_is_held_against_a_prompt_only_when_it_is_plainly_longer() -> None:
    faster, slower = many(["a", "b"], elapsed_ms=400.0), many(["a"], elapsed_ms=430.0)
    assert accept(compared(faster, slower)).passes
    much = many(["a"], elapsed_ms=1900.0)
    assert set(accept(compared(faster, much)).reasons) == {"p50_ms: worse", "p95_ms: worse"}
    assert accept(compared(much, many(["a"], elapsed_ms=10.0))).reasons == ("no measure is better",)


def test_numbers_are_shown_in_their_units() -> None:
    assert number(Measure.PRECISION, 0.5) == "0.500"
    assert number(Measure.P95, 812.4) == "812 ms"
    assert number(Measure.COST, 0.0002) == "0.200"
    assert number(Measure.RECALL, math.nan) == "?"
    assert number(Measure.TOKENS, -3, signed=True) == "-3"
    before, after = report([run("t", essential=("a",))]), report([run("t", ["a"], essential=("a",))])
    found = {one.measure: one for one in compare(before, after, rng(), 50).differences}
    assert difference(found[Measure.RECALL]) == "+1.000 (+1.000 to +1.000)"
