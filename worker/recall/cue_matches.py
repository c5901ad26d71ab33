"""Compare a query with the cues of the memories that were found."""

from collections.abc import Iterable, Sequence

import numpy as np

from worker.domain.cues import CueMatch
from worker.domain.memory import Vector
from worker.domain.vectors import Rows, unpacked

from .ranking import Entry

NEAR = 0.5
"""Least cosine of a query and a cue that is near it: of the cues of a needed memory, 1.3 of six are; of the strongest
others, 0.4."""


def match_cues(entries: Iterable[Entry], vectors: Sequence[Vector]) -> None:
    """Set `cues` of each entry with cues, by the nearest wording of the query, whose vectors are given."""
    if not vectors:
        return
    queries = np.asarray(vectors, dtype=np.float32)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    dimension = queries.shape[1]
    cued = [entry for entry in entries if _fits(entry, dimension)]
    if not cued:
        return
    rows = unpacked(b"".join(entry.cue_rows for entry in cued), dimension)
    # without BLAS, whose threads wait for each other on busy cores
    cosines: Rows = np.einsum("rd,qd->rq", rows, queries).max(axis=1)
    start = 0
    for entry in cued:
        end = start + 1 + len(entry.memory.cues)
        entry.cues = _match(entry, cosines[start:end])
        start = end


def _fits(entry: Entry, dimension: int) -> bool:
    """Return whether the stored vectors are those of the memory's text and its cues."""
    return bool(entry.memory.cues) and len(entry.cue_rows) == (1 + len(entry.memory.cues)) * dimension


def _match(entry: Entry, cosines: Rows) -> CueMatch:
    cues = cosines[1:]
    best = int(cues.argmax())
    return CueMatch(float(cosines[0]), float(cues[best]), entry.memory.cues[best].text, int((cues >= NEAR).sum()))
