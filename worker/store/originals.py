"""Recognize shown memories that come back as new ones: an agent saves what a block told it.

Such a write keeps the original with its date, instead of a copy that is dated today.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time

from worker.domain.errors import StoreError
from worker.domain.memory import (
    HybridQuery,
    Memory,
    MemoryFilter,
    Relation,
    SparseVector,
    Vector,
    Visibility,
    is_superseded,
)
from worker.ports.models import SparseEncoder
from worker.ports.store import MemoryStore
from worker.text.rendering import ShownLine, days_anywhere, is_shown_as, readings

SEARCHED = 8
"""Memories that each search for an original returns; equal texts come first."""

Originals = dict[str, Memory]
"""Originals by the id under which each was saved again."""


@dataclass(frozen=True, slots=True)
class _Search:
    """A search for the original of `memory`, whose text reads as `line`."""

    memory: Memory
    line: ShownLine
    query: HybridQuery


def texts_to_find(memories: Sequence[Memory]) -> list[str]:
    """Return the texts whose vectors a search for originals needs."""
    return [line.text for memory in memories for line in readings(memory.content)]


async def find_originals(
    store: MemoryStore,
    sparse: SparseEncoder,
    memories: Sequence[Memory],
    vectors: Mapping[str, Vector | None],
    now: datetime | None,
) -> Originals:
    """Return the originals of those `memories` that are shown lines of memories their owner may see."""
    searches = [
        _Search(memory, line, query)
        for memory in memories
        if not _is_record(memory)
        for line in readings(memory.content)
        if (query := _query(memory, vectors.get(line.text), sparse.query(line.text))) is not None
    ]
    try:
        found = await store.search_many([search.query for search in searches]) if searches else []
    except StoreError:  # no search can be made of these texts; the write itself reports a store that is down
        return {}
    originals: Originals = {}
    for search, hits in zip(searches, found, strict=True):
        for hit in hits:
            if _is_original(hit.memory, search, now):
                originals.setdefault(search.memory.id, hit.memory)
    return originals


def with_new_relations(original: Memory, again: Memory) -> Memory:
    """Return the original with the relations of the memory that repeats it, pinned if either is."""
    new = [one for one in again.relations if one not in original.relations and one.target != original.id]
    if not new and (original.pinned or not again.pinned):
        return original
    pinned = original.pinned or again.pinned
    return original.model_copy(update={"relations": (*original.relations, *new), "pinned": pinned})


def redirected(memory: Memory, originals: Originals) -> Memory:
    """Return the memory with relations to originals in place of what repeats them."""
    relations = tuple(
        Relation(kind=one.kind, target=originals[one.target].id) if one.target in originals else one
        for one in memory.relations
    )
    return memory if relations == memory.relations else memory.model_copy(update={"relations": relations})


def _query(memory: Memory, dense: Vector | None, sparse: SparseVector) -> HybridQuery | None:
    if dense is None and not sparse.indices:
        return None
    return HybridQuery(dense, sparse, MemoryFilter(visibility=_seen_with(memory)), SEARCHED)


def _seen_with(memory: Memory) -> Visibility:
    """Return what everybody who may see the memory may see."""
    scope = memory.scope
    return Visibility(
        users=(scope.user,) if scope.user else (),
        agents=(scope.agent,) if scope.agent else (),
        projects=(scope.project,) if scope.project else (),
        channels=(memory.channel,) if memory.channel else (),
        superseded=True,
    )


def _is_record(memory: Memory) -> bool:
    """Return whether the memory has a history of its own, as in a dump of a store: a time, or an unknown date."""
    if memory.superseded_by is not None or memory.version > 1:
        return True
    return "created_at" in memory.model_fields_set and (
        memory.created_at is None or memory.created_at.time() != time.min
    )


def _is_original(original: Memory, search: _Search, now: datetime | None) -> bool:
    """Return whether the text repeats `original`: the same words, and no other day."""
    again, line = search.memory, search.line
    if original.id == again.id or not is_shown_as(original.content, line.text):
        return False
    days = [line.day, *(moment.date() for moment in (again.occurred_at, again.created_at) if moment)]
    named = [day for day in days if day is not None]
    if not days_anywhere(original).issuperset(named):
        return False
    return bool(named) or line.outdated or now is None or _holds(original, now)


def _holds(memory: Memory, now: datetime) -> bool:
    return not is_superseded(memory, now) and (memory.valid_until is None or memory.valid_until > now)
