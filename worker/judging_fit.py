"""What a team's own labels change of the judge, measured on tasks that were not fitted, and the file that keeps it.

Three numbers are fitted: how steep the score is, how much the task's own score counts besides, and a shift. They are
held near what ships (a normal prior), so that thirty labelled tasks help and five do no harm. Pure, but for the file.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .errors import SettingsError
from .judging import Adjustment, Judge, Scores, Threshold, in_order, probabilities
from .judging_cases import Case

FILE = "judge.json"
LEAST_TASKS = 20
PARTS = 5
STEPS = 20

PRIOR = (1.0, 0.0, 0.0)
DOUBT = (0.3, 0.15, 1.5)
"""Standard deviations of the prior."""

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scored:
    """A labelled task with the judge's scores, `None` where nothing was found for it."""

    case: Case
    scores: Scores | None

    def relevant(self) -> npt.NDArray[np.bool_]:
        """By candidate whether it is relevant."""
        judged = self.case.judged
        found = judged.candidates if judged else ()
        return np.array([one.memory.id in self.case.labels.relevant for one in found], dtype=bool)


@dataclass(frozen=True, slots=True)
class Effect:
    """What is chosen, in shares of 0 to 1 (see `docs/judge.md`), and the mean negative log likelihood of the labels."""

    precision: float
    recall: float
    clean: float
    forbidden: float
    items: float
    loss: float


def fit(scored: Sequence[Scored]) -> Adjustment:
    """The change that the labels of these tasks ask for. Raises `SettingsError` for too few tasks."""
    known = [(one.scores, one.relevant()) for one in scored if one.scores is not None]
    if len(scored) < LEAST_TASKS or not any(relevant.any() for _, relevant in known):
        raise SettingsError(
            f"{len(scored)} labelled tasks are too few to fit to; it takes {LEAST_TASKS}, some with relevant memories"
        )
    design = np.concatenate([_design(scores) for scores, _ in known])
    wanted = np.concatenate([relevant for _, relevant in known]).astype(np.float64)
    found = np.array(PRIOR)
    doubt = np.diag(1.0 / np.square(DOUBT))
    for _ in range(STEPS):
        chance = 1.0 / (1.0 + np.exp(-(design @ found)))
        bend = chance * (1.0 - chance)
        slope = design.T @ (wanted - chance) - doubt @ (found - np.array(PRIOR))
        found = found + np.linalg.solve(design.T @ (design * bend[:, None]) + doubt, slope)
    return Adjustment(scale=float(found[0]), head=float(found[1]), shift=float(found[2]))


def _design(scores: Scores) -> Matrix:
    number = len(scores.items)
    return np.stack([scores.items.astype(np.float64), np.full(number, scores.head), np.ones(number)], axis=1)


def unseen_effects(scored: Sequence[Scored], threshold: Threshold, most: int) -> tuple[Effect, Effect]:
    """What is chosen before, and after fitting to the other parts of the tasks: nothing is measured where it was
    fitted."""
    before = [Adjustment()] * len(scored)
    after = list(before)
    for part in range(PARTS):
        change = fit([one for place, one in enumerate(scored) if place % PARTS != part])
        for place in range(part, len(scored), PARTS):
            after[place] = change
    return effect(scored, before, threshold, most), effect(scored, after, threshold, most)


def effect(scored: Sequence[Scored], changes: Sequence[Adjustment], threshold: Threshold, most: int) -> Effect:
    """What a threshold chooses for each task with its change."""
    totals = np.zeros(9)
    for one, change in zip(scored, changes, strict=True):
        totals += _counts(one, change, threshold, most)
    injected, good, found, essential, clean, empty, harmed, loss, pairs = totals.tolist()
    return Effect(
        precision=round(good / max(1.0, injected), 4),
        recall=round(found / max(1.0, essential), 4),
        clean=round(clean / max(1.0, empty), 4),
        forbidden=round(harmed / max(1, len(scored)), 4),
        items=round(injected / max(1, len(scored)), 4),
        loss=round(loss / max(1.0, pairs), 5),
    )


def _counts(one: Scored, change: Adjustment, threshold: Threshold, most: int) -> Matrix:
    """Injected, relevant of them, essential found, essential, clean, without relevant, with forbidden, loss, pairs."""
    labels, chosen, loss, pairs = one.case.labels, set[str](), 0.0, 0
    if one.scores is not None and one.case.judged is not None:
        likely = probabilities(one.scores, change)
        verdicts = in_order(one.case.judged.candidates, likely)
        kept = verdicts.candidates[: min(most, verdicts.passing(threshold))]
        chosen = {candidate.memory.id for candidate in kept}
        right = np.where(one.relevant(), likely, 1.0 - likely)
        loss, pairs = float(-np.log(np.maximum(right, 1e-6)).sum()), len(likely)
    empty = not labels.relevant
    return np.array(
        [
            len(chosen),
            len(chosen & labels.relevant),
            len(chosen & labels.essential),
            len(labels.essential),
            empty and not chosen,
            empty,
            bool(chosen & labels.forbidden),
            loss,
            pairs,
        ],
        dtype=np.float64,
    )


def read_adjustment(folder: Path, judge: Judge) -> Adjustment | None:
    """What was fitted to this version of the judge and saved in `folder`. Raises `SettingsError` for a broken file."""
    path = folder / FILE
    try:
        saved = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        values = saved.get(judge.version)
        return None if values is None else Adjustment(**{name: float(value) for name, value in values.items()})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise SettingsError(f"{path}: not what `meeseeks judge fit` has written ({error}); remove it") from error


def write_adjustment(folder: Path, judge: Judge, change: Adjustment) -> Path:
    """Save what was fitted, in the place of what was before; the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / FILE
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps({judge.version: asdict(change)}, indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path
