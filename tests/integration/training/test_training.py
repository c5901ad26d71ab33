"""Training the relevance model: correct on small data, and reproducible."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from rich.progress import Progress

from tests.support.worlds import copy_part
from training.agreement import Agreement, Reading, agreement, read_readings
from training.choosing import best_of, chosen, counts, threshold_for, thresholds_for, unseen_choice
from training.fitting import Recipe, calibration, fit, folds, rows_of, unseen_scores
from training.head import HeadFitter
from training.making import fitted_worlds, make
from training.observing import observed
from training.report import write_report
from training.shipping import card_of, numbers_of
from training.table import Data, numbered
from training.trees import Growth, grow
from training.variants import LARGE, origin, variants_of
from worker.adapters.models.relevance_file import read_relevance_model
from worker.relevance.model import Threshold
from worker.relevance.need import runs_of
from worker.tuning.labelled_worlds import read_world, read_worlds
from worker.tuning.relevance_measures import share_of_pairs

WORLDS = Path("training/worlds")
SECOND_READING = Path("training/second-reading.jsonl")

PAIR = ("photographer", "newsroom")
EVERY = 4
SMALL = Recipe(Growth(trees=12, depth=3, rate=0.07), seeds=1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    """Return parts of two worlds, still large enough for every kind of variant, with candidates from real recall."""
    folder = tmp_path_factory.mktemp("worlds")
    for name in PAIR:
        copy_part(WORLDS / name, folder, every=EVERY, memories=LARGE + 2, cues=2)
    with Progress(disable=True) as progress:
        return numbered(observed(read_worlds(folder, cues=True), read_relevance_model().table, 0, progress))


def _tasks() -> int:
    return sum(len(read_world(WORLDS / name).tasks[::EVERY]) for name in PAIR)


class TestTrees:
    def test_they_learn_a_rule_on_two_columns(self) -> None:
        random = np.random.default_rng(1)
        rows = random.normal(size=(3000, 6)).astype(np.float32)
        wanted = ((rows[:, 1] > 0.3) & (rows[:, 4] < 0.5)).astype(np.float32)
        trees = grow(rows, wanted, np.ones(3000, np.float32), Growth(trees=60, depth=3, rate=0.2))
        fresh = random.normal(size=(2000, 6)).astype(np.float32)
        right = (fresh[:, 1] > 0.3) & (fresh[:, 4] < 0.5)
        assert share_of_pairs(right, trees(fresh)) > 0.98
        assert {1, 4} <= set(trees.columns[:5].ravel().tolist())

    def test_the_same_seed_gives_the_same_trees(self) -> None:
        random = np.random.default_rng(2)
        rows = random.normal(size=(400, 5)).astype(np.float32)
        wanted = (rows[:, 0] > 0).astype(np.float32)
        weights = np.ones(400, np.float32)
        same = [grow(rows, wanted, weights, Growth(trees=5, depth=2, seed=seed)) for seed in (7, 7, 8)]
        assert np.array_equal(same[0].leaves, same[1].leaves)
        assert not np.array_equal(same[0].columns, same[2].columns)

    def test_rounding_differences_do_not_change_trees(self) -> None:
        random = np.random.default_rng(2)
        rows = random.normal(size=(400, 3)).astype(np.float32)
        other = np.where(random.random(rows.shape) < 0.1, np.nextafter(rows, np.float32(9.0)), rows)
        wanted = (rows[:, 0] > 0).astype(np.float32)
        weights = np.ones(400, np.float32)
        one, same = (grow(table, wanted, weights, Growth(trees=20, depth=3)) for table in (rows, other))
        for name in ("columns", "limits", "leaves"):
            assert np.array_equal(getattr(one, name), getattr(same, name))

    def test_constant_columns_are_not_used(self) -> None:
        random = np.random.default_rng(3)
        rows = np.stack([np.full(200, 4.0), random.normal(size=200)], axis=1).astype(np.float32)
        wanted = (rows[:, 1] > 0).astype(np.float32)
        trees = grow(rows, wanted, np.ones(200, np.float32), Growth(trees=5, depth=2, columns=1.0, smallest=5))
        assert set(trees.columns.ravel().tolist()) == {1}


class TestNeedModel:
    def test_it_separates_tasks_by_words_and_vector(self) -> None:
        random = np.random.default_rng(4)
        texts = [f"explain {word}" if place % 2 else f"remind {word}" for place, word in enumerate("abcdefghij" * 12)]
        vectors = random.normal(size=(120, 8)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        wanted = np.array([place % 2 == 0 for place in range(120)], dtype=np.float32)
        head = HeadFitter(vectors, [runs_of(text) for text in texts]).fit(np.arange(100), wanted[:100])
        scores = np.array([head(vector, text) for vector, text in zip(vectors, texts, strict=True)], dtype=np.float32)
        assert share_of_pairs(wanted[100:] > 0, scores[100:]) == 1.0


def test_calibration_finds_scale_and_shift() -> None:
    random = np.random.default_rng(5)
    scores = random.normal(size=20_000).astype(np.float32)
    relevant = (random.random(20_000) < 1.0 / (1.0 + np.exp(-(1.7 * scores - 0.6)))).astype(np.float32)
    scale, shift = calibration(scores, relevant)
    assert scale == pytest.approx(1.7, abs=0.1)
    assert shift == pytest.approx(-0.6, abs=0.1)


@pytest.mark.parametrize(
    ("wanted", "scores", "share"),
    [([1, 0], [2.0, 1.0], 1.0), ([0, 1], [2.0, 1.0], 0.0), ([1, 0, 1, 0], [1.0, 1.0, 1.0, 1.0], 0.5)],
)
def test_auroc_is_the_share_of_pairs(wanted: list[int], scores: list[float], share: float) -> None:
    assert share_of_pairs(np.array(wanted, dtype=bool), np.array(scores, dtype=np.float32)) == share


def test_a_second_reader_is_measured_against_labels(tmp_path: Path) -> None:
    world = read_world(WORLDS / "newsroom")
    wanting = [task for task in world.tasks if task.essential]
    empty = [task for task in world.tasks if not task.relevant]
    same = [Reading(world.name, task.key, task.essential, task.useful) for task in (*wanting, *empty)]
    assert agreement([world], same) == Agreement(1, len(same), 1.0, 1.0, 1.0, 1.0)
    wrong = next(memory.id for memory in world.memories if memory.id not in wanting[0].relevant)
    other = [
        Reading(world.name, wanting[0].key, frozenset([wrong]), frozenset()),
        Reading(world.name, empty[0].key, frozenset(), frozenset([wrong])),
    ]
    found = agreement([world], other)
    assert (found.tasks, found.precision, found.recall, found.clean) == (2, 0.0, 0.0, 0.0)
    assert found.kappa < 0.0
    path = tmp_path / "readings.jsonl"
    path.write_text('{"world": "newsroom", "id": "t01", "essential": ["m001"], "useful": []}\n', encoding="utf-8")
    assert read_readings(path) == (Reading("newsroom", "t01", frozenset(["m001"]), frozenset()),)


@pytest.mark.parametrize(
    ("worlds", "readings", "least"),
    [
        (WORLDS, SECOND_READING, 0.5),
        (Path("training/stores"), Path("training/second-reading-stores.jsonl"), 0.9),
        (Path("training/held-out"), Path("training/second-reading-held-out.jsonl"), 0.97),
    ],
    ids=["worlds", "stores", "held-out"],
)
def test_the_second_readings_match_existing_tasks(worlds: Path, readings: Path, least: float) -> None:
    found = agreement(read_worlds(worlds), read_readings(readings))
    assert found.tasks >= 24
    assert found.kappa > least


class TestVariants:
    def test_small_stores_hold_the_memories_of_half_of_their_tasks(self) -> None:
        world = read_world(WORLDS / "newsroom")
        plain_notes, *others = variants_of(world, 0)
        small = [one for one in others if ": small" in one.name]
        assert sum(len(one.tasks) for one in small) == 2 * len(world.tasks)
        assert len(plain_notes.memories) == len(world.memories)
        assert {origin(one.name) for one in (plain_notes, *small)} == {"newsroom"}
        known = {task.key: task.relevant | task.forbidden for task in world.tasks}
        for one in small:
            ids = {memory.id for memory in one.memories}
            own = one.tasks[: len(one.tasks) // 2]
            assert ids
            assert all(known[task.key] <= ids for task in own)
            assert all(task.relevant | task.forbidden == known[task.key] & ids for task in one.tasks)
            assert len({task.key for task in one.tasks}) == len(one.tasks)
            assert {task.request.scope.tenant for task in one.tasks} == {one.name}
        assert min(len(one.memories) for one in small) == 1

    def test_holes_have_all_tasks(self) -> None:
        world = read_world(WORLDS / "newsroom")
        holes = next(one for one in variants_of(world, 0) if one.name.endswith("holes"))
        ids = {memory.id for memory in holes.memories}
        assert len(holes.tasks) == len(world.tasks)
        assert all(task.relevant | task.forbidden <= ids for task in holes.tasks)
        wanting = [sum(bool(task.relevant) for task in one.tasks) for one in (world, holes)]
        assert 0 < wanting[1] < wanting[0]

    def test_plain_notes_have_only_text_and_owner(self) -> None:
        world = read_world(WORLDS / "newsroom")
        notes = next(variants_of(world, 0)).memories
        assert {(note.type, note.importance, note.entities, note.channel) for note in notes} == {
            ("fact", 0.5, (), None)
        }
        assert [note.content for note in notes] == [memory.content for memory in world.memories]
        assert [note.scope for note in notes] == [memory.scope for memory in world.memories]

    def test_small_stores_and_holes_come_with_and_without_cues(self) -> None:
        world = read_world(WORLDS / "newsroom", cues=True)
        names = [one.name.partition(": ")[2] for one in variants_of(world, 0) if any(m.cues for m in one.memories)]
        assert {name.rstrip(" 0123456789") for name in names} == {"cues", "holes with cues", "small with cues"}

    def test_variants_depend_on_the_seed(self) -> None:
        world = read_world(WORLDS / "newsroom")
        one, same, other = (list(variants_of(world, seed)) for seed in (3, 3, 4))
        assert one == same
        assert one != other

    def test_data_can_be_reduced_to_some_tasks(self, data: Data) -> None:
        written, rows = data.only(data.written)
        assert len(written.cases) == _tasks()
        assert np.array_equal(written.rows.table, data.rows.table[rows])
        assert written.rows.task.max() < _tasks()


class TestOnWorlds:
    def test_candidates_have_their_labels(self, data: Data) -> None:
        assert data.worlds == ("newsroom", "photographer")
        number = _tasks()
        assert data.written.sum() == number
        kinds = Counter(case.world.partition(": ")[2].split(" ")[0] for case in data.cases)
        assert (kinds["small"], kinds["holes"], kinds["cues"]) == (4 * number, 2 * number, number)
        assert data.rows.table.shape == (len(data.rows.task), len(data.columns))
        assert np.isfinite(data.rows.table).all()
        found = data.rows.essential.sum() / data.tasks.essential.sum()
        assert found > 0.8
        assert (data.tasks.world[data.twin] == data.tasks.world).all()
        assert all(
            data.cases[twin].labels.key == case.labels.key for twin, case in zip(data.twin, data.cases, strict=True)
        )
        assert not data.written[~data.own].any()
        assert (data.rows.relevant[data.rows.essential] == 1.0).all()

    def test_an_unseen_world_is_scored_by_a_model_of_the_other(self, data: Data) -> None:
        scores = unseen_scores(data, np.array([True, True]), 2, SMALL)
        other = fit(data, np.array([False, True]), SMALL)
        rows = rows_of(data, np.array([True, False]))
        assert np.array_equal(scores[rows], other.scores(data, rows))
        assert share_of_pairs(data.rows.relevant > 0, scores) > 0.7

    def test_thresholds_reach_their_targets(self, data: Data) -> None:
        both = np.array([True, True])
        everywhere = unseen_scores(data, both, 2, SMALL)
        data, rows = data.only(data.written)
        scores = everywhere[rows]
        threshold = threshold_for(data, scores, both, 0.9, 0.6)
        found = counts(data, chosen(data, scores, threshold)).measures()
        assert found.clean >= 0.9
        assert found.precision >= 0.6 or found.items == 0.0
        assert list(thresholds_for(data, scores, both)) == ["cautious", "balanced", "generous"]
        nothing = counts(data, chosen(data, scores, Threshold(99.0, 99.0))).measures()
        assert (nothing.clean, nothing.recall, nothing.items) == (1.0, 0.0, 0.0)

    def test_a_part_uses_thresholds_of_the_others(self, data: Data) -> None:
        scores = unseen_scores(data, np.array([True, True]), 2, SMALL)
        parts = folds(2, 2, 0)
        picked, thresholds = unseen_choice(data, scores, parts, 0.9, 0.5)
        assert len(thresholds) == 2
        mine = (parts == 0)[data.tasks.world[data.rows.task]]
        assert np.array_equal(picked[mine], chosen(data, scores, thresholds[0])[mine])
        assert best_of(data, scores).shape == (len(data.cases),)
        low, high = counts(data, picked).interval("clean")
        assert 0.0 <= low <= high <= 1.0

    def test_the_report_shows_outcomes_of_essential_memories(self, data: Data, tmp_path: Path) -> None:
        outcome = make(data, read_relevance_model().table, fitted_worlds(data.cases, PAIR), SMALL, 2)
        (tmp_path / "img").mkdir()
        write_report(outcome, Agreement(1, 1, 1.0, 1.0, 1.0, 1.0), tmp_path)
        lines = (tmp_path / "relevance-results.md").read_text(encoding="utf-8").splitlines()
        tables = {line.split(" | ")[0].removeprefix("| "): line.removesuffix(" |").split(" | ")[1:] for line in lines}
        assert int(tables["worlds, no cues"][1]) == int(tables["worlds, with cues"][1]) == _tasks()
        groups = [[float(value) for value in tables[name]] for name in ("none", "one", "two or more")]
        every = [float(value) for value in tables["all candidates"]]
        assert sum(group[0] for group in groups) == pytest.approx(every[0], abs=0.002)
        for _, *shares in (*groups, every):
            assert sum(shares) == pytest.approx(1.0, abs=0.002)

    def test_the_same_seed_makes_the_same_bytes(self, data: Data) -> None:
        table = read_relevance_model().table
        fitting = fitted_worlds(data.cases, ["newsroom", "photographer"])
        made = [make(data, table, fitting, SMALL, 2).made for _ in range(2)]
        numbers = [numbers_of(one) for one in made]
        assert numbers[0] == numbers[1]
        assert card_of(made[0], numbers[0]) == card_of(made[1], numbers[1])
        other = make(data, table, fitting, Recipe(Growth(trees=12, depth=3, rate=0.07, seed=1), seeds=1), 2).made
        assert numbers_of(other) != numbers[0]
