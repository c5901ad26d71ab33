"""Make the final model: fit it, score unseen worlds, calibrate, and choose thresholds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from worker.adapters.models.relevance_file import PieceTable
from worker.relevance.model import Threshold
from worker.tuning.relevance_cases import RelevanceCase

from .choosing import thresholds_for
from .fitting import Fitted, Recipe, calibration, fit, rows_of, unseen_scores
from .shipping import Made
from .table import Data, Flags, Floats
from .variants import origin

PARTS = 4
"""Parts of the worlds; each is scored by a model fitted to the others."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """A relevance model, and the calibrated scores of candidates by models that never saw their world.

    `data` and `scores` cover the original worlds, on which thresholds were chosen; `whole` and `whole_scores` include
    their variants.
    """

    made: Made
    data: Data
    fitting: Flags
    scores: Floats
    whole: Data
    whole_scores: Floats


def make(
    data: Data,
    table: PieceTable,
    fitting: Flags,
    recipe: Recipe,
    parts: int = PARTS,
    step: Callable[[], None] = lambda: None,
) -> Outcome:
    """Fit a relevance model to the worlds flagged in `fitting`; the others are only scored."""
    scores = unseen_scores(data, fitting, parts, recipe, step)
    fitted = fit(data, fitting, recipe, step)
    others = rows_of(data, ~fitting)
    scores[others] = fitted.scores(data, others) if len(others) else scores[others]
    written, places = data.only(data.written)
    rows = rows_of(written, fitting)
    scale, shift = calibration(scores[places][rows], written.rows.relevant[rows])
    calibrated = (scale * scores + shift).astype(np.float32)
    made = _made(written, table, fitting, fitted, calibrated[places], (scale, shift))
    return Outcome(made, written, fitting, calibrated[places], data, calibrated)


def _made(
    data: Data, table: PieceTable, fitting: Flags, fitted: Fitted, calibrated: Floats, line: tuple[float, float]
) -> Made:
    found = thresholds_for(data, calibrated, fitting)
    return Made(
        fitted=fitted,
        table=table,
        columns=data.columns,
        scale=line[0],
        shift=line[1],
        thresholds={profile: _as_probabilities(threshold) for profile, threshold in found.items()},
        worlds=int(fitting.sum()),
        tasks=int(fitting[data.tasks.world].sum()),
    )


def _as_probabilities(threshold: Threshold) -> Threshold:
    opens, keeps = (float(round(1.0 / (1.0 + np.exp(-value)), 4)) for value in (threshold.opens, threshold.keeps))
    return Threshold(opens, keeps)


def fitted_worlds(cases: Sequence[RelevanceCase], names: Sequence[str]) -> Flags:
    """Flag the worlds in `names`."""
    worlds = tuple(dict.fromkeys(origin(case.world) for case in cases))
    return np.array([world in set(names) for world in worlds])
