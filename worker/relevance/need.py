"""Whether a task needs memory at all: logistic regression on its vector and the runs of its characters. Pure."""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

CELLS = 2**15
"""Cells that runs of characters are counted in, by CRC-32."""

RUNS = (2, 3, 4, 5)
"""Lengths of the runs, inside words with a blank at both ends."""

MOST_CHARS = 600
"""Characters of a message whose runs are counted, from its beginning."""

RUNS_WEIGHT = 2.0
"""Length of the vector of runs, where that of the text has length 1."""


@dataclass(frozen=True, slots=True)
class CharacterRuns:
    """The runs of a text: cells, each once, and 1 + the logarithm of how often each occurs."""

    cells: Integers
    counts: Floats


def runs_of(text: str) -> CharacterRuns:
    """The runs of characters in the first part of `text`, as it is compared: in lower case."""
    counted = Counter(zlib.crc32(run.encode()) % CELLS for run in _runs(text[:MOST_CHARS].lower()))
    cells = np.array(sorted(counted), dtype=np.int64)
    counts = np.array([counted[int(cell)] for cell in cells], dtype=np.float32)
    return CharacterRuns(cells, np.float32(1.0) + np.log(counts).astype(np.float32))


def _runs(text: str) -> Iterator[str]:
    for word in text.split():
        padded = f" {word} "
        for length in RUNS:
            for start in range(max(1, len(padded) - length + 1)):
                yield padded[start : start + length]


def weighed(runs: CharacterRuns, rarity: Floats) -> Floats:
    """The counts of runs, each by its rarity, as a vector of the length that runs have."""
    values = runs.counts * rarity[runs.cells]
    length = float(np.linalg.norm(values))
    return values * np.float32(RUNS_WEIGHT / length) if length else values


@dataclass(frozen=True, slots=True)
class NeedModel:
    """Weights for a unit vector and, by cell, for weighed runs of characters."""

    vector: Floats
    runs: Floats
    rarity: Floats
    bias: float

    def __call__(self, vector: Floats, text: str) -> float:
        """The logarithm of the odds that a task with this vector and message needs memory."""
        runs = runs_of(text)
        return float(self.vector @ vector) + float(self.runs[runs.cells] @ weighed(runs, self.rarity)) + self.bias

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """What `head_from` reads."""
        return {
            "head_vector": self.vector,
            "head_runs": self.runs,
            "head_rarity": self.rarity,
            "head_bias": np.array([self.bias], dtype=np.float32),
        }


def head_from(arrays: Mapping[str, npt.NDArray[np.generic]], dimension: int) -> NeedModel:
    """A head for vectors of this dimension. Raises `ValueError` or `KeyError` for arrays that are none."""
    vector, runs, rarity = (arrays[f"head_{part}"].astype(np.float32) for part in ("vector", "runs", "rarity"))
    if vector.shape != (dimension,) or runs.shape != (CELLS,) or rarity.shape != (CELLS,):
        raise ValueError(f"the shapes of the head do not fit: {vector.shape}, {runs.shape}, {rarity.shape}")
    if not all(np.isfinite(array).all() for array in (vector, runs, rarity)):
        raise ValueError("the head holds numbers that are none")
    return NeedModel(vector, runs, rarity, float(arrays["head_bias"][0]))
