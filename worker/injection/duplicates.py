"""Drops what the session has already been shown and what says the same twice. Pure.

Two memories say the same when their texts read the same, or when the cosine of their vectors reaches a threshold and
nothing in the wording sets them apart (`worker.text.wording`). Of those that say the same the newest stays, in the best
place of any of them, so that no limit that comes later is used up by wordings of one fact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hooks.contract import Retention
from worker.domain.ledger import LedgerEntry, LedgerView
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Memory, Vector
from worker.text.wording import differ

CHAIN_SLACK = 0.06
"""How far below the threshold a wording may be from the newest one, if another of the same group is near both."""

_LEVELS = 127.0

Matrix = npt.NDArray[np.float32]


def still_shown(
    view: LedgerView, *, retention: Retention, visible_blocks: Sequence[str] | None, depth: int
) -> dict[str, LedgerEntry]:
    """The ledger's entries that count as being in the context now.

    An ephemeral block is gone after its turn. Where the caller says which blocks it still sees, only those count.
    Entries leave the window after `depth` turns, lasting ones do not.
    """
    if retention is Retention.EPHEMERAL:
        return {}
    return {
        memory_id: entry
        for memory_id, entry in view.shown.items()
        if (entry.lasting or view.turn - entry.turn < depth)
        and (visible_blocks is None or entry.block_id in visible_blocks)
    }


def compact(vector: Vector | None) -> bytes | None:
    """A vector in one signed byte per dimension; the cosine of two such is within 0.01 of the exact one."""
    if vector is None:
        return None
    values = np.asarray(vector, dtype=np.float32)
    largest = float(np.max(np.abs(values), initial=0.0))
    if not np.isfinite(largest) or largest == 0.0:
        return None
    levels: npt.NDArray[np.int8] = np.rint(values * (_LEVELS / largest)).astype(np.int8)
    return levels.tobytes()


def deduplicate(
    candidates: Sequence[Candidate], shown: Mapping[str, LedgerEntry], threshold: float | None = None
) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
    """The candidates that are new to the context and to this batch, and the others with the reason.

    A memory that was edited since it was shown has a higher version and may come again. `threshold` is the cosine
    from which two memories say the same; without it only texts that read the same do.
    """
    fresh, dropped = _without_known_ids(candidates, shown)
    contents = _Contents.of(fresh)
    repeats = _repeats(contents, fresh, shown, threshold)
    dropped += [Dropped(fresh[i], CandidateVerdict.ALREADY_SHOWN, of) for i, of in repeats.items()]
    kept: dict[int, Candidate] = {}
    for newest, others in _groups(contents, fresh, frozenset(repeats), threshold):
        members = [newest, *others]
        kept[min(members)] = _best_of(fresh[newest], [fresh[i] for i in members])
        dropped += [Dropped(fresh[i], CandidateVerdict.DUPLICATE, fresh[newest].memory.id) for i in others]
    return tuple(kept[place] for place in sorted(kept)), tuple(dropped)


def _without_known_ids(
    candidates: Sequence[Candidate], shown: Mapping[str, LedgerEntry]
) -> tuple[list[Candidate], list[Dropped]]:
    fresh: dict[str, Candidate] = {}
    dropped: list[Dropped] = []
    for candidate in candidates:
        key = candidate.memory.id
        if _is_shown(candidate.memory, shown):
            dropped.append(Dropped(candidate, CandidateVerdict.ALREADY_SHOWN))
        elif key in fresh:
            dropped.append(Dropped(candidate, CandidateVerdict.DUPLICATE, key))
        else:
            fresh[key] = candidate
    return list(fresh.values()), dropped


def _is_shown(memory: Memory, shown: Mapping[str, LedgerEntry]) -> bool:
    entry = shown.get(memory.id)
    return entry is not None and entry.version >= memory.version


@dataclass(frozen=True, slots=True)
class _Contents:
    """What candidates say: folded texts, unit vectors as rows (zeros where there is none), and their cosines."""

    texts: list[str]
    vectors: Matrix
    cosines: Matrix

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> "_Contents":
        vectors = _rows([candidate.vector for candidate in candidates])
        return cls([_folded(candidate.memory.content) for candidate in candidates], vectors, _cosines(vectors, vectors))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _rows(vectors: Sequence[Vector | None]) -> Matrix:
    """Unit rows of the commonest length; a vector of another length, or without a direction, becomes zeros."""
    lengths = [len(vector) for vector in vectors if vector]
    width = max(set(lengths), key=lengths.count, default=1)
    rows = np.zeros((len(vectors), width), dtype=np.float32)
    for row, vector in zip(rows, vectors, strict=True):
        if vector and len(vector) == width:
            row[:] = vector
    return _unit(rows)


def _unit(rows: Matrix) -> Matrix:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0.0)
    return np.where(usable, rows / np.where(usable, lengths, 1.0), 0.0).astype(np.float32)


def _cosines(one: Matrix, other: Matrix) -> Matrix:
    """Products of unit rows, in this thread: on busy cores BLAS loses far more by waiting for its threads."""
    products: Matrix = np.einsum("ik,jk->ij", one, other)
    return products


def _repeats(
    contents: _Contents, candidates: Sequence[Candidate], shown: Mapping[str, LedgerEntry], threshold: float | None
) -> dict[int, str]:
    """Places of candidates that say what something else in the context says, with the id of that."""
    said = {key: entry for key, entry in shown.items() if entry.text}
    cosines = _cosines(contents.vectors, _compacted(list(said.values()), contents.vectors.shape[1]))
    found: dict[int, str] = {}
    for column, (key, entry) in enumerate(said.items()):
        left = [place for place in range(len(candidates)) if place not in found and candidates[place].memory.id != key]
        for place in _alike(entry.text, cosines[:, column], left, contents, candidates, threshold):
            found[place] = key
    return found


def _compacted(entries: Sequence[LedgerEntry], width: int) -> Matrix:
    """Unit rows of what `compact` made; zeros where there is none of this width."""
    rows = np.zeros((len(entries), width), dtype=np.float32)
    for row, entry in zip(rows, entries, strict=True):
        if entry.vector is not None and len(entry.vector) == width:
            row[:] = np.frombuffer(entry.vector, dtype=np.int8)
    return _unit(rows)


def _groups(
    contents: _Contents, candidates: Sequence[Candidate], out: frozenset[int], threshold: float | None
) -> list[tuple[int, list[int]]]:
    """Places of candidates that say the same: the newest, and the others."""
    left = [place for place in _newest_first(candidates) if place not in out]
    groups = []
    while left:
        newest = left.pop(0)
        content = candidates[newest].memory.content
        group = _alike(content, contents.cosines[:, newest], left, contents, candidates, threshold)
        left = [place for place in left if place not in group]
        groups.append((newest, group))
    return groups


def _newest_first(candidates: Sequence[Candidate]) -> list[int]:
    def age(place: int) -> float:
        created = candidates[place].memory.created_at
        return float("inf") if created is None else -created.timestamp()

    return sorted(range(len(candidates)), key=age)


def _alike(
    text: str,
    cosines: Matrix,
    left: Sequence[int],
    contents: _Contents,
    candidates: Sequence[Candidate],
    threshold: float | None,
) -> list[int]:
    """Those of `left` that say what `text` says, directly or in steps that do not lead away from it.

    `cosines` are those of `text` and every candidate.
    """
    folded = _folded(text)
    group = [place for place in left if contents.texts[place] == folded]
    if threshold is None:
        return group
    near = cosines >= threshold - CHAIN_SLACK
    if not near.any():
        return group
    possible = [
        place
        for place in left
        if near[place] and place not in group and not differ(candidates[place].memory.content, text)
    ]
    step = [place for place in possible if cosines[place] >= threshold]
    while step:
        group += step
        possible = [place for place in possible if place not in step]
        step = [place for place in possible if (contents.cosines[step, place] >= threshold).any()]
    return group


def _best_of(newest: Candidate, group: Sequence[Candidate]) -> Candidate:
    """The newest wording with the best relevance and score of its group: they are about the same."""
    if len(group) == 1:
        return newest
    return replace(
        newest,
        relevance=max(candidate.relevance for candidate in group),
        score=max(candidate.score for candidate in group),
    )
