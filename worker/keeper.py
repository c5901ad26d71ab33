"""Keeps memories: remember, forget, list. A write is acknowledged only once it is stored."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from .errors import EmbedderError
from .models import Memory, MemoryFilter, Page, StoredMemory, Vector
from .protocols import Embedder, MemoryStore, SparseEncoder, StoreEngine
from .transfer import check_content

log = structlog.get_logger()

SUPERSEDING = frozenset({"updates", "supersedes"})
"""Kinds of relation whose target is out of date from then on."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a write did: ids that are new, ids whose content changed, ids that were there as they are."""

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    without_vector: int = 0


class Keeper:
    """Writes to and lists the store. `embedder` is missing while vectors must not be used."""

    def __init__(self, engine: StoreEngine, sparse: SparseEncoder, embedder: Embedder | None) -> None:
        self._engine = engine
        self._sparse = sparse
        self._embedder = embedder

    async def put(self, tenant: str, memories: Sequence[Memory]) -> Stored:
        """Store memories; one whose content changed gets the next version, one that is there already is left alone.

        Raises `MemoryRejected` before anything is written, `StoreError` when the store fails.
        """
        for memory in memories:
            check_content(memory)
        store = self._engine.tenant(tenant)
        latest = {memory.id: memory for memory in memories}
        present = {memory.id: memory for memory in await store.get(list(latest))}
        versioned = {key: _versioned(memory, present.get(key)) for key, memory in latest.items()}
        pending = await _with_superseded(versioned, store)
        writes = [memory for key, memory in pending.items() if memory != present.get(key)]
        without = await self._write(store, writes)
        return _summary(versioned, present, without)

    async def forget(self, tenant: str, ids: Sequence[str]) -> int:
        """Delete memories for good; the number that existed."""
        return await self._engine.tenant(tenant).delete(ids)

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Memory]:
        return await self._engine.tenant(tenant).get(ids)

    async def page(self, tenant: str, *, limit: int, cursor: str | None) -> Page:
        """A slice of all memories of the tenant, superseded ones included."""
        return await self._engine.tenant(tenant).scroll(MemoryFilter(), limit=limit, cursor=cursor)

    async def count(self, tenant: str) -> int:
        return await self._engine.tenant(tenant).count()

    async def _write(self, store: MemoryStore, memories: Sequence[Memory]) -> int:
        """Embed and store; the number of memories that had to be stored without a vector."""
        if not memories:
            return 0
        vectors = await self._vectors([memory.content for memory in memories])
        await store.put(
            [
                StoredMemory(memory, vector, self._sparse.passage(memory.content))
                for memory, vector in zip(memories, vectors, strict=True)
            ]
        )
        return sum(vector is None for vector in vectors)

    async def _vectors(self, texts: list[str]) -> Sequence[Vector | None]:
        if self._embedder is None:
            return [None] * len(texts)
        try:
            return await self._embedder.embed_passages(texts)
        except EmbedderError as error:
            log.warning("stored_without_vectors", memories=len(texts), error=str(error))
            return [None] * len(texts)


def _versioned(memory: Memory, present: Memory | None) -> Memory:
    """`memory` as it is to be stored over `present`."""
    if present is None:
        return memory
    if memory.content != present.content:
        return memory.model_copy(update={"version": max(memory.version, present.version + 1)})
    kept: dict[str, object] = {"version": max(memory.version, present.version)}
    if memory.superseded_by is None:
        kept |= {"superseded_by": present.superseded_by, "superseded_at": present.superseded_at}
    return memory.model_copy(update=kept)


async def _with_superseded(memories: dict[str, Memory], store: MemoryStore) -> dict[str, Memory]:
    """`memories` and, marked as superseded, those that they replace."""
    successors = {
        relation.target: memory
        for memory in memories.values()
        for relation in memory.relations
        if relation.kind in SUPERSEDING and relation.target != memory.id
    }
    outside = await store.get([target for target in successors if target not in memories])
    known = memories | {memory.id: memory for memory in outside}
    marked = {
        target: known[target].model_copy(update={"superseded_by": successor.id, "superseded_at": successor.created_at})
        for target, successor in successors.items()
        if target in known
    }
    return memories | marked


def _summary(memories: dict[str, Memory], present: dict[str, Memory], without_vector: int) -> Stored:
    created = tuple(key for key in memories if key not in present)
    updated = tuple(key for key, memory in memories.items() if key in present and memory != present[key])
    unchanged = tuple(key for key in memories if key in present and key not in updated)
    return Stored(created, updated, unchanged, without_vector)
