"""The need model, which estimates whether a task needs memory: logistic regression on vector and runs. Pure."""

import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

CELLS = 2**15
"""Size of the hash table for runs, by CRC-32."""

RUNS = (2, 3, 4, 5)
"""Lengths of the runs, within words padded with a space at both ends."""

MOST_CHARS = 600
"""Characters read from the start of a message."""

RUNS_WEIGHT = 2.0
"""Norm of the vector of runs; the text's vector has norm 1."""


@dataclass(frozen=True, slots=True)
class CharacterRuns:
    """The distinct cells of a text's runs, and 1 + the logarithm of each count."""

    cells: Integers
    counts: Floats


def runs_of(text: str) -> CharacterRuns:
    """Return the runs of the lowercased start of `text`."""
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
    """Return the counts weighted by rarity, scaled to `RUNS_WEIGHT`."""
    values = runs.counts * rarity[runs.cells]
    length = float(np.linalg.norm(values))
    return values * np.float32(RUNS_WEIGHT / length) if length else values


@dataclass(frozen=True, slots=True)
class NeedModel:
    """Weights for a unit vector and, by cell, for weighted character runs."""

    vector: Floats
    runs: Floats
    rarity: Floats
    bias: float

    def __call__(self, vector: Floats, text: str) -> float:
        """Return the log odds that a task with this vector and message needs memory."""
        runs = runs_of(text)
        return float(self.vector @ vector) + float(self.runs[runs.cells] @ weighed(runs, self.rarity)) + self.bias

    def arrays(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the arrays that `need_model_from` reads."""
        return {
            "head_vector": self.vector,
            "head_runs": self.runs,
            "head_rarity": self.rarity,
            "head_bias": np.array([self.bias], dtype=np.float32),
        }


def need_model_from(arrays: Mapping[str, npt.NDArray[np.generic]], dimension: int) -> NeedModel:
    """Return a need model for vectors of this dimension. Raise `ValueError` or `KeyError` for invalid arrays."""
    vector, runs, rarity = (arrays[f"head_{part}"].astype(np.float32) for part in ("vector", "runs", "rarity"))
    if vector.shape != (dimension,) or runs.shape != (CELLS,) or rarity.shape != (CELLS,):
        raise ValueError(f"the need model has wrong shapes: {vector.shape}, {runs.shape}, {rarity.shape}")
    if not all(np.isfinite(array).all() for array in (vector, runs, rarity)):
        raise ValueError("the need model has numbers that are not finite")
    return NeedModel(vector, runs, rarity, float(arrays["head_bias"][0]))
