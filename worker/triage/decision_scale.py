"""The scale that turns a decision model's raw probabilities into calibrated ones, and the file that keeps it.

p = 1 / (1 + exp(-(slope * logit(raw) + intercept))), as in Platt scaling; `worker.tuning.decision_scale_fit` fits it.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from worker.settings.fitted import broken, read_table, write_table

COMMAND = "meeseeks calibrate-decision"
FILE = "decision-scales.json"

_EDGE = 1e-6


@dataclass(frozen=True, slots=True)
class DecisionScale:
    """How a model's raw probabilities are read; `threshold` is one of the calibrated ones."""

    slope: float = 1.0
    intercept: float = 0.0
    threshold: float = 0.5

    def calibrated(self, raw: float) -> float:
        return sigmoid(self.slope * logit(raw) + self.intercept)


def logit(probability: float) -> float:
    """The log odds, bounded where the probability is 0 or 1."""
    bounded = min(max(probability, _EDGE), 1.0 - _EDGE)
    return math.log(bounded / (1.0 - bounded))


def sigmoid(value: float) -> float:
    if value >= 0:
        return 1.0 / (1.0 + math.exp(-value))
    return math.exp(value) / (1.0 + math.exp(value))


def read_scales(folder: Path) -> dict[str, DecisionScale]:
    """Return the fitted scales by model. Raise `SettingsError` for a broken file."""
    path = folder / FILE
    try:
        return {str(name): DecisionScale(**values) for name, values in read_table(path, COMMAND).items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise broken(path, COMMAND, "a scale in it is damaged") from error


def write_scale(folder: Path, model: str, scale: DecisionScale) -> Path:
    """Save the scale of one model beside those of others and return the file's path."""
    scales = {**read_scales(folder), model: scale}
    return write_table(folder / FILE, {name: asdict(each) for name, each in scales.items()})
