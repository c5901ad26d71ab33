"""Calibrate a decision model's probabilities by Platt scaling, and store the fitted scales.

p = 1 / (1 + exp(-(slope * logit(raw) + intercept))); `worker.tuning.decision_scale_fit` fits it.
"""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from worker.settings.fitted import broken, read_table, update_table

COMMAND = "meeseeks eval calibrate-decision"
FILE = "decision-scales.json"

_EDGE = 1e-6


@dataclass(frozen=True, slots=True)
class DecisionScale:
    """The calibration of one model; `threshold` applies to calibrated probabilities."""

    slope: float = 1.0
    intercept: float = 0.0
    threshold: float = 0.5

    def calibrated(self, raw: float) -> float:
        return sigmoid(self.slope * logit(raw) + self.intercept)


def logit(probability: float) -> float:
    """Return the log odds, clipped at probabilities of 0 and 1."""
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
    return update_table(folder / FILE, COMMAND, lambda table: table | {model: asdict(scale)})
