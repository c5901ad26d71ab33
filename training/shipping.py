"""Write the relevance model's files, reproducibly."""

import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from worker.adapters.models.minilm import PROFILE
from worker.adapters.models.relevance_file import CARD, FORMAT, NUMBERS, PieceTable
from worker.domain.kinds import RelevanceProfile
from worker.relevance.model import HEAD, Threshold

from .fitting import Fitted

VERSION = "5"
EARLIEST = (1980, 1, 1, 0, 0, 0)
"""Timestamp of every file in the archive, the earliest that ZIP supports."""


@dataclass(frozen=True, slots=True)
class Made:
    """A relevance model to write; `thresholds` are probabilities."""

    fitted: Fitted
    table: PieceTable
    columns: tuple[str, ...]
    scale: float
    shift: float
    thresholds: Mapping[RelevanceProfile, Threshold]
    worlds: int
    tasks: int


def numbers_of(made: Made) -> bytes:
    """Return the arrays as an archive for `numpy.load`."""
    arrays = made.fitted.head.arrays() | made.fitted.trees.arrays("trees") | made.table.arrays()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", EARLIEST), _array(arrays[name]))
    return buffer.getvalue()


def _array(array: npt.NDArray[np.generic]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def card_of(made: Made, numbers: bytes) -> str:
    """Return the card as JSON."""
    card = {
        "name": "meeseeks-relevance",
        "version": VERSION,
        "format": FORMAT,
        "sha256": hashlib.sha256(numbers).hexdigest(),
        "license": "Apache-2.0",
        "embedder": {"name": PROFILE.name, "fingerprint": PROFILE.fingerprint, "dimension": PROFILE.dimension},
        "fitted_to": {"worlds": made.worlds, "tasks": made.tasks},
        "scale": made.scale,
        "shift": made.shift,
        "thresholds": {profile.value: asdict(threshold) for profile, threshold in made.thresholds.items()},
        "columns": [*made.columns, HEAD],
    }
    return json.dumps(card, indent=1) + "\n"


def write(made: Made, folder: Path) -> str:
    """Write both files into `folder` and return the SHA-256 of the arrays."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = numbers_of(made)
    (folder / NUMBERS).write_bytes(numbers)
    (folder / CARD).write_text(card_of(made, numbers), encoding="utf-8")
    return hashlib.sha256(numbers).hexdigest()
