"""Drop memories that the session has been shown already, and duplicates. Pure.

Two memories are duplicates if their folded texts are equal, or if their cosine reaches a threshold and their wording
does not differ (`worker.text.wording`). The newest one stays and takes the best position of its group.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hooks.contract import Retention
from worker.domain.ledger import LedgerEntry, LedgerView
from worker.domain.memory import Candidate, CandidateVerdict, Dropped, Memory
from worker.domain.vectors import StoredVector
from worker.text.wording import differ

CHAIN_SLACK = 0.06
"""How far below the threshold a duplicate's cosine to the newest may be if another duplicate is close to both."""

Matrix = npt.NDArray[np.float32]


def still_shown(
    view: LedgerView, *, retention: Retention, visible_blocks: Sequence[str] | None, depth: int
) -> dict[str, LedgerEntry]:
    """Return the ledger entries that are still in the context.

    Entries expire after `depth` turns unless they are lasting. If `visible_blocks` is given, only those blocks count.
    """
    if retention is Retention.EPHEMERAL:
        return {}
    return {
        memory_id: entry
        for memory_id, entry in view.shown.items()
        if (entry.lasting or view.turn - entry.turn < depth)
        and (visible_blocks is None or entry.block_id in visible_blocks)
    }


def compact(vector: StoredVector | None) -> bytes | None:
    """Quantize a vector to one signed byte per dimension; cosines change by less than 0.01."""
    if vector is None:
        return None
    largest = float(np.max(np.abs(vector), initial=0.0))
    if not np.isfinite(largest) or largest == 0.0:
        return None
    levels: npt.NDArray[np.int8] = np.rint(vector * np.float32(127.0 / largest)).astype(np.int8)
    return levels.tobytes()


TellsMore = Callable[[Memory, LedgerEntry], bool]
"""Says whether a memory that was shown in part has more to tell."""


def _whole(_: Memory, __: LedgerEntry) -> bool:
    return False


def deduplicate(
    candidates: Sequence[Candidate],
    shown: Mapping[str, LedgerEntry],
    threshold: float | None = None,
    *,
    tells_more: TellsMore = _whole,
) -> tuple[tuple[Candidate, ...], tuple[Dropped, ...]]:
    """Split candidates into new ones and dropped ones.

    A memory that was edited since it was shown has a higher version and counts as new; so does one that `tells_more`.
    `threshold` is the least cosine of duplicates; without it, only equal texts are duplicates.
    """
    fresh, dropped = _without_known_ids(candidates, shown, tells_more)
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
    candidates: Sequence[Candidate], shown: Mapping[str, LedgerEntry], tells_more: TellsMore
) -> tuple[list[Candidate], list[Dropped]]:
    fresh: dict[str, Candidate] = {}
    dropped: list[Dropped] = []
    for candidate in candidates:
        memory = candidate.memory
        key, entry = memory.id, shown.get(memory.id)
        if entry is not None and entry.version >= memory.version and not tells_more(memory, entry):
            dropped.append(Dropped(candidate, CandidateVerdict.ALREADY_SHOWN))
        elif key in fresh:
            dropped.append(Dropped(candidate, CandidateVerdict.DUPLICATE, key))
        else:
            fresh[key] = candidate
    return list(fresh.values()), dropped


@dataclass(frozen=True, slots=True)
class _Contents:
    """Candidates' folded texts, unit vectors as rows (zeros if missing), and the cosines of every two."""

    texts: list[str]
    vectors: Matrix
    cosines: Matrix

    @classmethod
    def of(cls, candidates: Sequence[Candidate]) -> "_Contents":
        vectors = _rows([candidate.vector for candidate in candidates])
        return cls([_folded(candidate.memory.content) for candidate in candidates], vectors, _cosines(vectors, vectors))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _rows(vectors: Sequence[StoredVector | None]) -> Matrix:
    """Return unit rows of the most common length; zeros for a vector of another length or of length 0."""
    lengths = [len(vector) for vector in vectors if vector is not None and len(vector)]
    width = max(set(lengths), key=lengths.count, default=1)
    rows = np.zeros((len(vectors), width), dtype=np.float32)
    for row, vector in zip(rows, vectors, strict=True):
        if vector is not None and len(vector) == width:
            row[:] = vector
    return _unit(rows)


def _unit(rows: Matrix) -> Matrix:
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    usable = np.isfinite(lengths) & (lengths > 0.0)
    return np.where(usable, rows / np.where(usable, lengths, 1.0), 0.0).astype(np.float32)


def _cosines(one: Matrix, other: Matrix) -> Matrix:
    """Multiply unit rows in this thread: BLAS threads wait for each other on busy cores."""
    products: Matrix = np.einsum("ik,jk->ij", one, other)
    return products


def _repeats(
    contents: _Contents, candidates: Sequence[Candidate], shown: Mapping[str, LedgerEntry], threshold: float | None
) -> dict[int, str]:
    """Return indices of candidates that repeat another memory in the context, with that memory's id."""
    said = {key: entry for key, entry in shown.items() if entry.text}
    cosines = _cosines(contents.vectors, _compacted(list(said.values()), contents.vectors.shape[1]))
    found: dict[int, str] = {}
    for column, (key, entry) in enumerate(said.items()):
        left = [place for place in range(len(candidates)) if place not in found and candidates[place].memory.id != key]
        for place in _alike(entry.text, cosines[:, column], left, contents, candidates, threshold):
            found[place] = key
    return found


def _compacted(entries: Sequence[LedgerEntry], width: int) -> Matrix:
    """Return unit rows of the entries' `compact` vectors; zeros if missing or of another width."""
    rows = np.zeros((len(entries), width), dtype=np.float32)
    for row, entry in zip(rows, entries, strict=True):
        if entry.vector is not None and len(entry.vector) == width:
            row[:] = np.frombuffer(entry.vector, dtype=np.int8)
    return _unit(rows)


def _groups(
    contents: _Contents, candidates: Sequence[Candidate], out: frozenset[int], threshold: float | None
) -> list[tuple[int, list[int]]]:
    """Return groups of duplicates as indices: the newest and the others."""
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
    """Return those of `left` that duplicate `text`, directly or through another duplicate.

    `cosines` holds the cosine of `text` and each candidate.
    """
    folded = _folded(text)
    group = [place for place in left if contents.texts[place] == folded]
    if threshold is None:
        return group
    near = set(np.flatnonzero(cosines >= threshold - CHAIN_SLACK).tolist())
    possible = [
        place
        for place in left
        if place in near and place not in group and not differ(candidates[place].memory.content, text)
    ]
    step = [place for place in possible if cosines[place] >= threshold]
    while step:
        group += step
        possible = [place for place in possible if place not in step]
        step = [place for place in possible if (contents.cosines[step, place] >= threshold).any()]
    return group


def _best_of(newest: Candidate, group: Sequence[Candidate]) -> Candidate:
    """Return the newest memory with the best relevance and score of its group."""
    if len(group) == 1:
        return newest
    return replace(newest, relevance=max(one.relevance for one in group), score=max(one.score for one in group))
