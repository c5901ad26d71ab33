"""What a measured system is given, in files, and what it prints. Needs numpy only: peers have their own environment."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

TEXTS, QUERIES, SPARSE = "memories", "queries", "sparse"
BATCH = 64
READY = "ready"

Sparse = tuple[Sequence[int], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts with their keys and unit vectors, one per row."""

    keys: tuple[str, ...]
    texts: tuple[str, ...]
    vectors: npt.NDArray[np.float32]

    def save(self, folder: Path, name: str) -> None:
        (folder / f"{name}.json").write_text(json.dumps([self.keys, self.texts]), encoding="utf-8")
        np.save(folder / f"{name}.npy", self.vectors)


@dataclass(frozen=True, slots=True)
class Found:
    """The keys found for a query with their scores, best first."""

    hits: tuple[tuple[str, float], ...]
    milliseconds: float


def load(folder: Path, name: str) -> Texts:
    keys, texts = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return Texts(tuple(keys), tuple(texts), np.load(folder / f"{name}.npy"))


def save_sparse(folder: Path, vectors: dict[str, Sparse]) -> None:
    (folder / f"{SPARSE}.json").write_text(json.dumps(vectors), encoding="utf-8")


def load_sparse(folder: Path) -> dict[str, Sparse]:
    """Return the keyword vectors of all texts, by text."""
    found: dict[str, Any] = json.loads((folder / f"{SPARSE}.json").read_text(encoding="utf-8"))
    return {text: (indices, values) for text, (indices, values) in found.items()}


def resident_mb(pid: int | str = "self") -> float:
    """Return the resident memory of a process; 0 if the system does not report it."""
    file = Path(f"/proc/{pid}/status")
    if not file.is_file():
        return 0.0
    lines = file.read_text(encoding="utf-8").splitlines()
    return next((float(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)
