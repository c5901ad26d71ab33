"""Compare a query with the cues, and with the pieces of long texts, of the memories that were found."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from worker.domain.cues import CueMatch
from worker.domain.memory import Hit, Vector
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
        end = start + len(entry.cue_rows) // dimension
        entry.cues = _match(entry, cosines[start:end])
        start = end


def _fits(entry: Entry, dimension: int) -> bool:
    """Return whether there are vectors of the memory's text, its cues, and perhaps its pieces."""
    cues, rows = len(entry.memory.cues), _rows(entry.cue_rows, dimension)
    return cues > 0 and rows >= 1 + cues


def _rows(data: bytes, dimension: int) -> int:
    """Return the number of packed vectors, 0 if they have another dimension."""
    return 0 if len(data) % dimension else len(data) // dimension


def _match(entry: Entry, cosines: Rows) -> CueMatch:
    first = 1 + len(entry.memory.cues)
    own, cues = max(float(cosines[0]), *cosines[first:].tolist(), -1.0), cosines[1:first]
    best = int(cues.argmax())
    return CueMatch(own, float(cues[best]), entry.memory.cues[best].text, int((cues >= NEAR).sum()))


def with_pieces(hits: Sequence[Hit], query: Vector | None) -> list[Hit]:
    """Return the hits, those with long texts with the cosine of their nearest piece if that is nearer."""
    return [_with_piece(hit, query) if query is not None and hit.cue_rows else hit for hit in hits]


def _with_piece(hit: Hit, query: Vector) -> Hit:
    first, dimension = 1 + len(hit.memory.cues), len(query)
    if _rows(hit.cue_rows, dimension) <= first:
        return hit
    vector = np.asarray(query, dtype=np.float32)
    vector /= max(float(np.linalg.norm(vector)), 1e-6)
    nearest = float(np.einsum("rd,d->r", unpacked(hit.cue_rows, dimension)[first:], vector).max())
    return replace(hit, cosine=nearest if hit.cosine is None else max(hit.cosine, nearest))
