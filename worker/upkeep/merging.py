"""How duplicates become one memory, and how that is taken back. Pure."""

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

import numpy as np

from worker.domain.cues import Cue, with_more
from worker.domain.memory import SUPERSEDES, Candidate, Memory, Relation
from worker.domain.upkeep import KeptBefore
from worker.domain.vectors import StoredVector
from worker.injection.duplicates import deduplicate

from .scan import PackedRows

_FILLED = ("context", "source", "evidence")
"""Fields that a kept memory takes from a duplicate if it has none: where it comes from."""


def merges_of(
    memories: Sequence[Memory], rows: PackedRows, threshold: float | None
) -> list[tuple[Memory, list[Memory]]]:
    """Return the memories to keep, each with its duplicates, as injection tells duplicates."""
    candidates = [
        Candidate(memory, None, None, 0.0, 0.0, vector=_vector(row)) for memory, row in zip(memories, rows, strict=True)
    ]
    _, dropped = deduplicate(candidates, {}, threshold)
    by_id = {memory.id: memory for memory in memories}
    found: dict[str, list[Memory]] = {}
    for one in dropped:
        if one.of is not None:
            found.setdefault(one.of, []).append(one.candidate.memory)
    return [(by_id[key], others) for key, others in found.items()]


def _vector(row: "np.ndarray[tuple[int], np.dtype[np.int8]]") -> StoredVector | None:
    return row.astype(np.float32) if row.any() else None


def merged(kept: Memory, others: Sequence[Memory]) -> Memory:
    """Return the kept memory with the oldest date, and the cues, entities, relations and origin of its duplicates."""
    ids = {kept.id, *(other.id for other in others)}
    relations = dict.fromkeys(kept.relations)
    for other in others:
        relations |= dict.fromkeys(one for one in other.relations if one.target not in ids)
        relations[Relation(kind=SUPERSEDES, target=other.id)] = None
    cues: tuple[Cue, ...] = kept.cues
    for other in others:
        cues = with_more(cues, [cue for cue in other.cues if cue not in cues])
    update: dict[str, object] = {
        "created_at": _oldest([kept, *others]),
        "importance": max(one.importance for one in (kept, *others)),
        "entities": tuple(dict.fromkeys(name for one in (kept, *others) for name in one.entities)),
        "relations": tuple(relations),
        "cues": cues,
        "pinned": kept.pinned or any(one.pinned for one in others),
    }
    for name in _FILLED:
        if getattr(kept, name) is None:
            update[name] = next((value for one in others if (value := getattr(one, name)) is not None), None)
    return kept.model_copy(update=update)


def before_of(kept: Memory, others: Sequence[Memory]) -> KeptBefore:
    """Return what is needed to take the merge back."""
    after = merged(kept, others)
    filled = frozenset(name for name in _FILLED if getattr(after, name) != getattr(kept, name))
    had = frozenset(map(_digest, _parts(kept)))
    return KeptBefore(
        created_at=kept.created_at, importance=kept.importance, pinned=kept.pinned, had=had, filled=filled
    )


def is_merged(memory: Memory, others: Iterable[str]) -> bool:
    """Return whether the memory supersedes all these duplicates."""
    return {Relation(kind=SUPERSEDES, target=other) for other in others} <= set(memory.relations)


def unmerged(memory: Memory, others: Sequence[Memory], before: KeptBefore, gone: Iterable[str] = ()) -> Memory:
    """Return the kept memory without what it has of these duplicates; what others changed since stays.

    `gone` are ids of duplicates that were deleted since.
    """
    ids = {*gone, *(other.id for other in others)}
    added = {_digest(part) for other in others for part in _parts(other)} - before.had

    def is_own(part: object) -> bool:
        return _digest(part) not in added

    update: dict[str, object] = {
        "relations": tuple(
            one for one in memory.relations if is_own(one) and not (one.kind == SUPERSEDES and one.target in ids)
        ),
        "cues": tuple(filter(is_own, memory.cues)),
        "entities": tuple(filter(is_own, memory.entities)),
    }
    if memory.created_at in {other.created_at for other in others}:
        update["created_at"] = before.created_at
    if memory.importance in {other.importance for other in others}:
        update["importance"] = before.importance
    if any(other.pinned for other in others):
        update["pinned"] = before.pinned
    for name in before.filled:
        if getattr(memory, name) in [getattr(other, name) for other in others]:
            update[name] = None
    return memory.model_copy(update=update)


def digest_of(memory: Memory) -> str:
    """Return a digest that differs after any change of the memory.

    Without a pin, it is the one that earlier versions made.
    """
    return _hash(memory.model_dump_json(exclude=None if memory.pinned else {"pinned"}))


def _oldest(memories: Iterable[Memory]) -> datetime | None:
    return min((one.created_at for one in memories if one.created_at is not None), default=None)


def _parts(memory: Memory) -> list[object]:
    return [*memory.cues, *memory.entities, *memory.relations]


def _digest(part: object) -> str:
    return _hash(part.text if isinstance(part, Cue) else str(part))[:12]


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
