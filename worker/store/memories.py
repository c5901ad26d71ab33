"""Writing and listing of memories. A write returns only after it has been stored.

Outdated memories are marked (`superseded_by`, `superseded_at`), so that a filter can exclude them from every search. A
successor and the memory it replaces can be stored in any order.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog

from worker.domain.errors import EmbedderError, MemoryRejected, NotFound
from worker.domain.kinds import SortKey
from worker.domain.memory import SUPERSEDING, Memory, MemoryFilter, Page, Relation, StoredMemory, Vector
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import MemoryStore, StoreEngine
from worker.text.masking import mask_secrets
from worker.text.names import keyword_text
from worker.transfer import changed, check_content

log = structlog.get_logger()

LISTED = 200
"""Page size when listing memories that refer to others."""

MOST_STEPS = 100
"""Maximum length of a chain of successors."""

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)

Changed = Callable[[str, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Result of a write, as ids; `without_vector` counts memories that could not be embedded."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    without_vector: int = 0


@dataclass(frozen=True, slots=True)
class MemoryWithHistory:
    """A memory with those it replaced, those that replaced it (nearest first), and other related ones."""

    memory: Memory
    earlier: tuple[Memory, ...] = ()
    later: tuple[Memory, ...] = ()
    related: tuple[Memory, ...] = ()


class MemoryService:
    """Writes and lists memories.

    Without `embedder`, memories are stored without dense vectors. `mask` masks secrets in stored memories. `changed` is
    called with tenant and ids before each write or deletion.
    """

    def __init__(
        self,
        engine: StoreEngine,
        sparse: SparseEncoder,
        embedder: Embedder | None,
        *,
        mask: bool = False,
        changed: Changed | None = None,
    ) -> None:
        self._engine = engine
        self._sparse = sparse
        self._embedder = embedder
        self._mask = mask
        self._changed = changed

    async def put(
        self, tenant: str, memories: Sequence[Memory], *, now: datetime | None = None, mask: bool = False
    ) -> StoreReport:
        """Store memories; changed content increments the version, and unchanged memories are skipped.

        A missing `created_at` is taken from the stored memory, or set to `now`. Raise `MemoryRejected` before anything
        is written, or `StoreError` if the store fails.
        """
        given = [_masked(memory) for memory in memories] if mask or self._mask else memories
        for memory in given:
            check_content(memory)
        store = self._engine.tenant(tenant)
        latest = {memory.id: memory for memory in given}
        present = {memory.id: memory for memory in await store.get(list(latest))}
        versioned = {key: _versioned(memory, present.get(key), now) for key, memory in latest.items()}
        arrived = await _with_successors(versioned, present, store)
        outside = {memory.id: memory for memory in await store.get(_replaced_outside(arrived))}
        known = present | outside
        pending = _with_superseded(arrived | outside, arrived.values())
        without = await self._write(tenant, store, pending.values(), known)
        return _summary(versioned, present, without)

    async def update(self, tenant: str, memory_id: str, changes: dict[str, Any]) -> Memory:
        """Change some fields of a memory; raise `NotFound`, or `MemoryRejected` for an invalid value."""
        memory = changed(await self._one(tenant, memory_id), changes)
        await self.put(tenant, [memory])
        return await self._one(tenant, memory_id)

    async def relate(self, tenant: str, source: str, kind: str, target: str) -> Memory:
        """Add a relation from `source` to `target`, which a superseding relation marks as outdated; return the source.

        Raise `NotFound` if either is unknown, or `MemoryRejected` if they are the same.
        """
        if source == target:
            raise MemoryRejected("relations: a memory cannot be related to itself")
        memory, _ = await self._one(tenant, source), await self._one(tenant, target)
        relation = Relation(kind=kind, target=target)
        if relation not in memory.relations:
            memory = memory.model_copy(update={"relations": (*memory.relations, relation)})
        await self.put(tenant, [memory])
        return memory

    async def forget(self, tenant: str, ids: Sequence[str]) -> int:
        """Delete memories and all references to them; return the number that existed.

        Memories that a deleted memory had replaced stay outdated.
        """
        store, gone = self._engine.tenant(tenant), frozenset(ids)
        self._note(tenant, list(gone))
        deleted = await store.delete(list(ids))
        pointing = {memory.id: memory for memory in await _pointing(store, list(gone))}
        await self._write(tenant, store, [_without(memory, gone) for memory in pointing.values()], pointing)
        return deleted

    async def show(self, tenant: str, memory_id: str) -> MemoryWithHistory:
        """Return a memory with its history; raise `NotFound`."""
        store = self._engine.tenant(tenant)
        memory = await self._one(tenant, memory_id)
        earlier = await _earlier(store, memory)
        later = await _later(store, memory)
        history = {shown.id for shown in (memory, *earlier, *later)}
        targets = await store.get([relation.target for relation in memory.relations])
        related = {found.id: found for found in [*targets, *await _pointing(store, [memory_id])]}
        return MemoryWithHistory(memory, earlier, later, tuple(related[key] for key in related if key not in history))

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Memory]:
        return await self._engine.tenant(tenant).get(ids)

    async def page(self, tenant: str, *, limit: int, cursor: str | None, where: MemoryFilter | None = None) -> Page:
        """Return a page of the tenant's memories, including outdated ones unless `where` excludes them."""
        return await self._engine.tenant(tenant).scroll(where or MemoryFilter(), limit=limit, cursor=cursor)

    async def newest(self, tenant: str, *, limit: int, where: MemoryFilter) -> tuple[Memory, ...]:
        hits = await self._engine.tenant(tenant).ordered(where, SortKey.RECENT, limit=limit)
        return tuple(hit.memory for hit in hits)

    async def count(self, tenant: str) -> int:
        return await self._engine.tenant(tenant).count()

    async def _one(self, tenant: str, memory_id: str) -> Memory:
        found = await self._engine.tenant(tenant).get([memory_id])
        if not found:
            raise NotFound(f"there is no memory {memory_id!r}")
        return found[0]

    def _note(self, tenant: str, ids: Sequence[str]) -> None:
        if self._changed is not None:
            self._changed(tenant, ids)

    async def _write(
        self, tenant: str, store: MemoryStore, memories: Iterable[Memory], known: Mapping[str, Memory]
    ) -> int:
        """Store what differs from `known`; return the number of memories stored without a vector.

        The vectors of memories with unchanged content and names are kept.
        """
        differing = [memory for memory in memories if memory != known.get(memory.id)]
        amended = [memory for memory in differing if _keeps_vectors(memory, known.get(memory.id))]
        new = [memory for memory in differing if not _keeps_vectors(memory, known.get(memory.id))]
        vectors = await self._vectors([memory.content for memory in new])
        self._note(tenant, [memory.id for memory in differing])
        if new:
            pairs = zip(new, vectors, strict=True)
            await store.put(
                [StoredMemory(one, vector, self._sparse.passage(keyword_text(one))) for one, vector in pairs]
            )
        if amended:
            await store.amend(amended)
        return sum(vector is None for vector in vectors)

    async def _vectors(self, texts: list[str]) -> Sequence[Vector | None]:
        if self._embedder is None or not texts:
            return [None] * len(texts)
        try:
            return await self._embedder.embed_passages(texts)
        except EmbedderError as error:
            log.warning("stored_without_vectors", memories=len(texts), error=str(error))
            return [None] * len(texts)


def _keeps_vectors(memory: Memory, known: Memory | None) -> bool:
    """Return whether the vectors of a stored memory would stay the same."""
    return known is not None and (memory.content, memory.entities) == (known.content, known.entities)


def _masked(memory: Memory) -> Memory:
    content = mask_secrets(memory.content)
    return memory if content == memory.content else memory.model_copy(update={"content": content})


def _versioned(memory: Memory, present: Memory | None, now: datetime | None) -> Memory:
    """Return `memory` as it replaces `present`."""
    kept: dict[str, object] = {}
    if now is not None and "created_at" not in memory.model_fields_set:
        kept["created_at"] = now if present is None else present.created_at
    if present is not None:
        changes = memory.content != present.content
        kept["version"] = max(memory.version, present.version + changes)
        if memory.superseded_by is None:
            kept |= {"superseded_by": present.superseded_by, "superseded_at": present.superseded_at}
    return memory.model_copy(update=kept)


async def _pointing(store: MemoryStore, ids: Sequence[str]) -> list[Memory]:
    """Return every memory that refers to one of `ids`."""
    found: list[Memory] = []
    cursor = None
    where = MemoryFilter(pointing_at=tuple(ids))
    while ids:
        page = await store.scroll(where, limit=LISTED, cursor=cursor)
        found += page.memories
        cursor = page.cursor
        if cursor is None:
            break
    return found


def _replaced(memory: Memory) -> list[str]:
    """Return ids of the memories that this one supersedes."""
    return [link.target for link in memory.relations if link.kind in SUPERSEDING and link.target != memory.id]


def _superseded(memory: Memory, successors: Iterable[Memory]) -> Memory:
    """Mark `memory` as superseded by the newest of `successors`, unless its present successor is newer."""
    newest = max(successors, key=lambda one: (one.created_at or EARLIEST, one.id), default=None)
    since = memory.superseded_at or EARLIEST
    if newest is None or (memory.superseded_by and since >= (newest.created_at or EARLIEST)):
        return memory
    return memory.model_copy(update={"superseded_by": newest.id, "superseded_at": newest.created_at})


def _by_target(successors: Iterable[Memory]) -> dict[str, list[Memory]]:
    found: dict[str, list[Memory]] = {}
    for successor in successors:
        for target in _replaced(successor):
            found.setdefault(target, []).append(successor)
    return found


async def _with_successors(
    memories: dict[str, Memory], present: dict[str, Memory], store: MemoryStore
) -> dict[str, Memory]:
    """Mark those of `memories` as superseded whose successor is already stored."""
    arriving = [key for key in memories if key not in present]
    pointing = _by_target(await _pointing(store, arriving))
    return memories | {key: _superseded(memories[key], pointing.get(key, ())) for key in arriving}


def _replaced_outside(memories: Mapping[str, Memory]) -> list[str]:
    """Return ids of superseded memories that are not among `memories`."""
    return [target for target in _by_target(memories.values()) if target not in memories]


def _with_superseded(memories: dict[str, Memory], successors: Iterable[Memory]) -> dict[str, Memory]:
    """Mark those of `memories` as superseded that `successors` replace."""
    pointing = _by_target(successors)
    return {key: _superseded(memory, pointing.get(key, ())) for key, memory in memories.items()}


def _without(memory: Memory, gone: frozenset[str]) -> Memory:
    """Remove all references to deleted memories from `memory`."""
    relations = tuple(relation for relation in memory.relations if relation.target not in gone)
    update: dict[str, object] = {"relations": relations}
    if memory.superseded_by in gone:
        update |= {"superseded_by": None, "superseded_at": memory.superseded_at or memory.created_at or EARLIEST}
    return memory.model_copy(update=update)


async def _earlier(store: MemoryStore, memory: Memory) -> tuple[Memory, ...]:
    """Return the chain of memories that `memory` replaced."""
    found: dict[str, Memory] = {}
    newest = [memory]
    while newest and len(found) < MOST_STEPS:
        replaced = {target for later in newest for target in _replaced(later)}
        ids = [later.id for later in newest]
        superseded = {earlier.id for earlier in await _pointing(store, ids) if earlier.superseded_by in ids}
        wanted = sorted((replaced | superseded) - set(found) - {memory.id})
        newest = await store.get(wanted)
        found |= {earlier.id: earlier for earlier in newest}
    return tuple(found.values())


async def _later(store: MemoryStore, memory: Memory) -> tuple[Memory, ...]:
    """Return the chain of memories that replaced `memory`."""
    found: dict[str, Memory] = {}
    following = memory.superseded_by
    while following is not None and following not in found and following != memory.id and len(found) < MOST_STEPS:
        successors = await store.get([following])
        found |= {successor.id: successor for successor in successors}
        following = successors[0].superseded_by if successors else None
    return tuple(found.values())


def _summary(memories: dict[str, Memory], present: dict[str, Memory], without_vector: int) -> StoreReport:
    created = tuple(key for key in memories if key not in present)
    updated = tuple(key for key, memory in memories.items() if key in present and memory != present[key])
    unchanged = tuple(key for key in memories if key in present and key not in updated)
    return StoreReport(created, updated, unchanged, without_vector)
