"""Thresholds from observations, what they do, and the file that keeps them."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from worker.domain.errors import SettingsError
from worker.domain.memory import EmbedderProfile
from worker.recall.thresholds import FILE, Thresholds, read_calibration, write_calibration
from worker.tuning.search_thresholds import (
    ObservedCandidate,
    effect_of,
    from_labelled,
    from_off_topic,
    labelled_effect,
    off_topic_tasks,
    quantile,
    unseen_effect,
)

PROFILE = EmbedderProfile("tiny", "1", 4, candidate_threshold=0.25, confident=0.5, duplicate=0.92)
NOW = Thresholds(candidate_threshold=0.25, query_threshold=0.25, keyword=1.0, confident=0.5)


def task(cosine: float, keyword: float = 0.0, *, relevant: bool = False) -> list[ObservedCandidate]:
    return [
        ObservedCandidate(cosine, keyword, 0.6 * cosine, relevant),
        ObservedCandidate(cosine / 2, 0.0, 0.3 * cosine),
    ]


def test_quantiles_lie_between_neighbours() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([0.0, 1.0], 0.95) == pytest.approx(0.95)
    assert quantile([7.0], 0.2) == 7.0


def test_off_topic_tasks_set_the_query_threshold_and_leave_what_needs_labels() -> None:
    observed = [task(n / 100, n / 50) for n in range(41)]
    found = from_off_topic(observed, NOW)
    assert found == Thresholds(candidate_threshold=0.25, query_threshold=0.3, keyword=1.0, confident=0.5)
    assert from_off_topic([task(0.1)] * 40, NOW) == Thresholds(
        candidate_threshold=0.1, query_threshold=0.1, keyword=1.0, confident=0.5
    )
    assert from_off_topic([task(0.95, 3.0)] * 40, NOW).confident == pytest.approx(0.57)


def test_labelled_tasks_keep_what_is_relevant_and_stop_the_rest() -> None:
    relevant = [task(0.6 + n / 1000, relevant=True) for n in range(100)]
    rest = [task(0.3 + n / 1000) for n in range(100)]
    found = from_labelled([*relevant, *rest])
    assert found.query_threshold == pytest.approx(0.601)
    assert found.candidate_threshold <= found.query_threshold
    assert 0.6 * 0.39 < found.confident < 0.6 * 0.4
    effect = effect_of(found, [*relevant, *rest])
    assert (effect.passing, effect.stopped, effect.clean) == (0.99, 1.0, 1.0)


def test_a_keyword_score_lets_pass_what_no_cosine_would() -> None:
    relevant = [task(0.1, 3.0, relevant=True) for _ in range(50)] + [task(0.7, relevant=True) for _ in range(50)]
    rest = [task(0.4, 1.0) for _ in range(100)]
    found = from_labelled([*relevant, *rest])
    assert effect_of(found, [*relevant, *rest]).passing == 1.0
    assert found.keyword <= 3.0


def test_effects_count_tasks_and_memories() -> None:
    observed = [task(0.6, relevant=True), task(0.2, relevant=True), task(0.3), [], task(0.9)]
    effect = effect_of(NOW, observed)
    assert (effect.passing, effect.kept) == (0.5, 0.5)
    assert (effect.stopped, effect.clean) == (pytest.approx(0.3333), pytest.approx(0.6667))
    assert effect_of(NOW, [task(0.9)]).passing is None


def test_an_effect_is_measured_on_tasks_that_were_left_out() -> None:
    relevant = [task(0.6 + n / 1000, relevant=True) for n in range(100)]
    rest = [task(0.3 + n / 1000) for n in range(100)]
    effect = labelled_effect([*relevant, *rest])
    assert effect == labelled_effect([*rest, *relevant])
    assert effect.stopped == 1.0
    assert 0.95 <= (effect.passing or 0.0) <= 0.99
    lone = [*[task(0.1)] * 59, task(0.9)]
    measure = partial(from_off_topic, now=NOW)
    assert effect_of(measure(lone), lone) == unseen_effect(lone, measure)
    high = {*range(0, 51, 5), 1, 6, 11, 16}
    apart = [task(0.9 if n in high else 0.1) for n in range(60)]
    assert effect_of(measure(apart), apart).stopped == 0.75
    assert unseen_effect(apart, measure).stopped == 0.6


def test_too_few_tasks_are_refused() -> None:
    with pytest.raises(SettingsError, match="too few"):
        from_off_topic([task(0.5)] * 5, NOW)
    with pytest.raises(SettingsError, match="50 labelled tasks find a relevant memory and 0 do not, too few"):
        from_labelled([task(0.5, relevant=True)] * 50)


def test_there_are_sixty_off_topic_tasks_each_once() -> None:
    tasks = off_topic_tasks()
    assert len(tasks) == len(set(tasks)) == 60
    assert not [text for text in tasks if text.startswith("#")]


def test_thresholds_are_kept_by_fingerprint(tmp_path: Path) -> None:
    folder, other = tmp_path / "data", replace(PROFILE, revision="2")
    measured = Thresholds(0.1, 0.2, 1.5, 0.6)
    assert read_calibration(folder, PROFILE) == PROFILE
    write_calibration(folder, PROFILE, measured)
    write_calibration(folder, other, NOW)
    read = read_calibration(folder, PROFILE)
    assert (read.candidate_threshold, read.query_threshold, read.keyword, read.confident) == (0.1, 0.2, 1.5, 0.6)
    assert (read.fingerprint, read.duplicate) == (PROFILE.fingerprint, 0.92)
    assert read_calibration(folder, other).query_threshold == 0.25
    assert Thresholds.of(read, 9.9) == measured
    assert Thresholds.of(PROFILE, 9.9) == Thresholds(0.25, 0.25, 9.9, 0.5)


@pytest.mark.parametrize("text", ["{", "[]", '{"%s": {}}', '{"%s": {"floor": "x"}}'])
def test_a_file_that_says_nothing_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text.replace("%s", PROFILE.fingerprint), encoding="utf-8")
    with pytest.raises(SettingsError, match=FILE):
        read_calibration(tmp_path, PROFILE)
