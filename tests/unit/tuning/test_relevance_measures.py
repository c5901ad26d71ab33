"""What a way to rate candidates is worth, the model beside the search's scores, what labels must be there to fit."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest

from hooks.contract import InjectionRequest
from tests.support.vectors import row
from worker.domain.errors import SettingsError
from worker.domain.kinds import RelevanceProfile
from worker.domain.memory import Candidate, Memory, SelectionTask
from worker.relevance.features import RelevanceInput
from worker.relevance.model import Adjustment, Scores, Threshold
from worker.tuning.labelled_worlds import LabelledTask
from worker.tuning.relevance_cases import RelevanceCase
from worker.tuning.relevance_fit import LEAST_OF_EACH, LEAST_TASKS, Scored, fit, fit_to
from worker.tuning.relevance_measures import Rated, Rater, auroc, loss, measured, rater_scores

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)
REQUEST = InjectionRequest(session_id="s", message="m")
POINTS = {
    RelevanceProfile.CAUTIOUS: Threshold(0.8, 0.6),
    RelevanceProfile.BALANCED: Threshold(0.5, 0.4),
    RelevanceProfile.GENEROUS: Threshold(0.25, 0.1),
}


def case(
    essential: Sequence[int], cosines: Sequence[float], *, useful: Sequence[int] = (), forbidden: Sequence[int] = ()
) -> RelevanceCase:
    """A task whose candidates have these cosines, and three fifths of them as the relevance of the search."""
    found = tuple(
        Candidate(Memory(id=f"m{place}", content="x", created_at=NOW), value, None, 0.6 * value, 0.6 * value, row(1.0))
        for place, value in enumerate(cosines)
    )
    labels = (frozenset(f"m{place}" for place in ids) for ids in (essential, useful, forbidden))
    inputs = RelevanceInput(SelectionTask("m", None, (), "m", NOW), found, 10, np.ones(1, np.float32))
    return RelevanceCase("w", LabelledTask("t", "single", REQUEST, *labels), None, inputs if found else None)


def rated(values: Sequence[float], essential: Sequence[int], **labels: Sequence[int]) -> Rated:
    """Candidates that are rated like their cosines."""
    return Rated(case(essential, values, **labels), np.array(values, dtype=np.float32) if values else None)


class TestMeasures:
    def test_shares_are_of_sums_over_tasks(self) -> None:
        tasks = [
            rated([0.9, 0.6, 0.2], [0], useful=[1]),
            rated([0.7, 0.1], [1]),
            rated([0.3, 0.2], []),
            rated([0.8, 0.1], [], forbidden=[0]),
            rated([], []),
        ]
        found = measured(tasks, Threshold(0.5, 0.5), 5)
        assert (found.precision, found.recall) == (0.5, 0.5)
        assert found.clean == pytest.approx(0.6667)
        assert (found.forbidden, found.items, found.loss) == (0.2, 0.8, None)

    def test_no_more_than_the_most_are_chosen(self) -> None:
        assert measured([rated([0.9, 0.8, 0.7], [2])], Threshold(0.5, 0.5), 2).recall == 0.0

    def test_where_there_is_nothing_to_count_nothing_is_claimed(self) -> None:
        found = measured([rated([0.1], [])], Threshold(0.5, 0.5), 5)
        assert (found.precision, found.recall, found.clean) == (None, None, 1.0)
        assert measured([rated([0.1], [0])], Threshold(0.5, 0.5), 5).clean is None

    def test_the_loss_is_that_of_the_labels(self) -> None:
        assert loss([rated([0.8, 0.5], [0])]) == pytest.approx(-(math.log(0.8) + math.log(0.5)) / 2, abs=1e-5)
        assert loss([rated([], [])]) is None

    def test_auroc_counts_pairs_and_half_of_the_ties(self) -> None:
        wanted = np.array([True, False, True, False])
        assert auroc(wanted, np.array([0.9, 0.1, 0.5, 0.5])) == 0.875
        assert auroc(wanted, np.zeros(4)) == 0.5
        assert auroc(np.ones(3, dtype=bool), np.zeros(3)) is None


class TestStandings:
    def test_scores_of_the_search_are_granted_as_many_clean_turns_as_the_model_has(self) -> None:
        wanting = [Rated(case([0], [0.5 + n / 100]), np.array([0.9], np.float32)) for n in range(10)]
        empty = [Rated(case([], [0.52 + n / 100]), np.array([0.7 if n == 3 else 0.1], np.float32)) for n in range(10)]
        found = rater_scores([*wanting, *empty], Threshold(0.5, 0.5), 5)
        assert found[Rater.RELEVANCE_MODEL].effect.clean == 0.9
        assert found[Rater.RELEVANCE_MODEL].candidates == found[Rater.RELEVANCE_MODEL].tasks == 1.0
        for rater in (Rater.FUSION, Rater.COSINE):
            assert found[rater].effect.clean == 0.9
            assert found[rater].effect.recall == 0.0
            assert found[rater].candidates == pytest.approx(0.32)
        assert found[Rater.COSINE].threshold.opens == pytest.approx(0.6, abs=1e-5)

    def test_the_threshold_is_as_low_as_it_may_be(self) -> None:
        wanting = [Rated(case([0], [0.6]), np.array([0.9], np.float32))]
        empty = [Rated(case([], [0.59]), np.array([0.1], np.float32)), Rated(case([], []), None)]
        assert rater_scores([*wanting, *empty], Threshold(0.5, 0.5), 5)[Rater.COSINE].effect.recall == 1.0

    def test_without_tasks_that_want_nothing_everything_passes(self) -> None:
        found = rater_scores([Rated(case([0], [0.1]), np.array([0.1], np.float32))], Threshold(0.5, 0.5), 5)
        assert found[Rater.COSINE].effect.recall == 1.0
        assert math.isfinite(found[Rater.COSINE].threshold.opens)


def scored(relevant: bool, item: float, head: float = 0.0) -> Scored:
    return Scored(case([0] if relevant else [], [0.5, 0.4]), Scores(np.array([item, -6.0], np.float32), head))


class TestLabelsToFit:
    def test_the_least_number_of_tasks_is_enough(self) -> None:
        tasks = [scored(n % 2 == 0, 3.0 if n % 2 == 0 else -3.0) for n in range(LEAST_TASKS)]
        found = fit_to(tasks, POINTS, RelevanceProfile.BALANCED, 5)
        assert found.tasks == LEAST_TASKS
        assert found.after.precision == found.before.precision == 1.0

    def test_it_says_which_labels_are_too_few(self) -> None:
        with pytest.raises(
            SettingsError, match=f"{LEAST_TASKS - 1} labelled tasks are too few .* `meeseeks eval label`"
        ):
            fit([scored(True, 1.0)] * (LEAST_TASKS - 1))
        with pytest.raises(
            SettingsError, match=f"30 labelled tasks find a relevant memory and 4 .* {LEAST_OF_EACH} of"
        ):
            fit([*[scored(True, 1.0)] * 30, *[scored(False, 1.0)] * 4])
        with pytest.raises(SettingsError, match="0 labelled tasks find a relevant memory and 30"):
            fit([*[scored(False, 1.0)] * 30])

    def test_a_relevant_memory_that_was_not_found_is_nothing_to_fit_to(self) -> None:
        missed = [Scored(case([0], []), None) for _ in range(30)]
        with pytest.raises(SettingsError, match="0 labelled tasks find"):
            fit([*missed, *[scored(False, 1.0)] * 10])

    def test_what_makes_labels_no_likelier_does_not_help(self) -> None:
        random = np.random.default_rng(5)
        values = random.normal(0.0, 2.0, 40)
        fair = [scored(bool(random.random() < 1 / (1 + math.exp(-value))), float(value)) for value in values]
        found = fit_to(fair, POINTS, RelevanceProfile.BALANCED, 5)
        assert found.before.loss is not None
        assert found.after.loss is not None
        assert found.helps is (found.after.loss < found.before.loss)

    @pytest.mark.parametrize("size", [10.0, 50.0])
    def test_scores_far_from_any_odds_do_not_break_it(self, size: float) -> None:
        change = fit([scored(n % 2 == 0, -size if n % 2 == 0 else size, size) for n in range(40)])
        assert all(map(math.isfinite, (change.scale, change.head, change.shift)))

    def test_a_team_whose_labels_are_turned_round_is_followed(self) -> None:
        turned = [scored(n % 2 == 0, -1.0 if n % 2 == 0 else 1.0) for n in range(60)]
        found = fit_to(turned, POINTS, RelevanceProfile.BALANCED, 5)
        assert found.helps
        assert found.change.scale < 1.0


def test_a_change_of_nothing_rates_as_the_model_ships() -> None:
    one = scored(True, 2.0)
    values = one.rated(Adjustment()).values
    assert values is not None
    assert values[0] == pytest.approx(0.8808, abs=1e-4)
