"""Copying of a store while it is in use.

A copy compares before it writes, so it can be interrupted and repeated at any time. Writes to the source are recorded
in a change log and copied at the end, while further writes wait.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass

import structlog

from worker.domain.errors import EmbedderError, StoreError
from worker.domain.memory import Memory, StoredMemory
from worker.domain.pages import Listed, Listing
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import WholeStore
from worker.ports.store_record import StoreRecord
from worker.text.names import keyword_text

from .vectors import MemoryVectors, is_whole, vectors_of

PAGE = 64
"""Memories read, embedded and written at a time; other writes wait for at most one page."""

ATTEMPTS = 4
PAUSE = 0.5

log = structlog.get_logger()

Address = tuple[str, str]
"""Tenant and id of a memory."""


class ChangeLog:
    """Records which memories are written or deleted between `begin` and `end`, and counts the `writes` at all times."""

    def __init__(self) -> None:
        self.writes = 0
        self._changed: dict[Address, None] | None = None

    def __call__(self, tenant: str, ids: Iterable[str]) -> None:
        self.writes += 1
        if self._changed is not None:
            self._changed |= {(tenant, key): None for key in ids}

    def begin(self) -> None:
        self._changed = {}

    def take(self) -> list[Address]:
        """Return and clear the recorded changes."""
        changed, self._changed = self._changed or {}, {}
        return list(changed)

    def end(self) -> None:
        self._changed = None


@dataclass
class Progress:
    """Progress of a long operation; `total` is 0 while it is unknown."""

    phase: str = "starting"
    done: int = 0
    total: int = 0

    def enter(self, phase: str, total: int = 0) -> None:
        self.phase, self.done, self.total = phase, 0, total


@dataclass(frozen=True, slots=True)
class PointBuilder:
    """Computes the vectors of memories; `anew` also recomputes existing ones."""

    embedder: Embedder | None
    sparse: SparseEncoder
    anew: bool = False

    @property
    def record(self) -> StoreRecord:
        return StoreRecord.of(self.embedder.profile if self.embedder else None, self.sparse.config_hash)

    def can_reuse_vectors(self, made_by: StoreRecord) -> bool:
        """Return whether dense vectors of a store with this record can be reused."""
        return not self.anew and made_by.embedder is not None and made_by.embedder == self.record.embedder

    async def stored(self, entries: Sequence[Listed], made_by: StoreRecord | None) -> list[StoredMemory]:
        """Add vectors, reusing those from the same embedder; raise `EmbedderError`."""
        vectors = [MemoryVectors()] * len(entries)
        if self.embedder is not None:
            usable = made_by is not None and self.can_reuse_vectors(made_by)
            vectors = [MemoryVectors(entry.dense, entry.cues) if usable else MemoryVectors() for entry in entries]
            bare = [place for place, found in enumerate(vectors) if not is_whole(found, entries[place].memory)]
            made = await self._embedded([entries[place].memory for place in bare])
            for place, found in zip(bare, made, strict=True):
                vectors[place] = found
        return [
            StoredMemory(entry.memory, found.own, self.sparse.passage(keyword_text(entry.memory)), found.cues)
            for entry, found in zip(entries, vectors, strict=True)
        ]

    async def _embedded(self, memories: list[Memory]) -> list[MemoryVectors]:
        if self.embedder is None or not memories:
            return []
        for attempt in range(1, ATTEMPTS):
            try:
                return await vectors_of(self.embedder, memories)
            except EmbedderError as error:
                log.warning("embedding_failed", attempt=attempt, error=str(error))
                await asyncio.sleep(PAUSE * 2**attempt)
        return await vectors_of(self.embedder, memories)


class Copier:
    """Copies `source` to `target` with vectors from `maker`.

    `digests` identify the memories known to be in the target; they take about 200 bytes per memory.
    """

    def __init__(self, source: WholeStore, target: WholeStore, maker: PointBuilder, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._maker = maker
        self._progress = progress
        self.digests: dict[Address, bytes] = {}
        self.unreadable = 0

    async def copy_all(self) -> int:
        """Copy changed memories, delete missing ones, and return the number of changes; can be repeated to catch up."""
        made_by = await self._source.record()
        vectors = self._maker.can_reuse_vectors(made_by)
        self._progress.enter("copying", (await self._source.health()).points)
        before, self.digests = self.digests, {}
        changes, self.unreadable = 0, 0
        async for page in pages_of(self._source, vectors=vectors):
            changes += await self._copy_page(page.entries, before, made_by)
            self.unreadable += page.unreadable
            self._progress.done += len(page.entries)
        return changes + await self._delete_others()

    async def copy(self, addresses: Sequence[Address]) -> None:
        """Copy these memories in their current state, and delete those that no longer exist."""
        for tenant, ids in grouped(addresses).items():
            for start in range(0, len(ids), PAGE):
                wanted = ids[start : start + PAGE]
                found = await self._source.tenant(tenant).get(wanted)
                entries = [Listed(tenant, memory) for memory in found]
                await self._put(entries, None)
                gone = sorted(set(wanted) - {memory.id for memory in found})
                if gone:
                    await self._target.tenant(tenant).delete(gone)
                    for key in gone:
                        self.digests.pop((tenant, key), None)

    async def settle(self, source: WholeStore, known: dict[Address, bytes] | None = None) -> int:
        """Copy what was written to the source after it was copied, unless the target has changed since.

        `source` is the same generation, opened again. `known` are the digests of what it had and are kept up to date;
        by default, they are those of what was copied.
        """
        self._source = source
        copied = dict(self.digests) if known is None else known
        moved: list[Address] = []
        seen: set[Address] = set()
        async for page in pages_of(source):
            for entry in page.entries:
                seen.add(address_of(entry))
                if copied.get(address_of(entry)) != digest(entry.memory):
                    moved.append(address_of(entry))
        moved += [address for address in copied if address not in seen]
        untouched = [address for address in moved if await self._is_as_copied(address)]
        await self.copy(untouched)
        for address in untouched:
            copied.pop(address, None)
            if address in self.digests:
                copied[address] = self.digests[address]
        return len(untouched)

    async def _is_as_copied(self, address: Address) -> bool:
        found = await self._target.tenant(address[0]).get([address[1]])
        return (digest(found[0]) if found else None) == self.digests.get(address)

    async def _copy_page(self, entries: Sequence[Listed], before: dict[Address, bytes], made_by: StoreRecord) -> int:
        """Copy the memories that differ from the target."""
        wanted = {(entry.tenant, entry.memory.id): digest(entry.memory) for entry in entries}
        held = {address: before[address] for address in wanted if address in before}
        for tenant, ids in grouped([address for address in wanted if address not in held]).items():
            for memory in await self._target.tenant(tenant).get(ids):
                held[tenant, memory.id] = digest(memory)
        differing = [entry for entry in entries if held.get(address_of(entry)) != wanted[address_of(entry)]]
        await self._put(differing, made_by)
        self.digests |= wanted
        return len(differing)

    async def _put(self, entries: Sequence[Listed], made_by: StoreRecord | None) -> None:
        for tenant, listed in by_tenant(entries).items():
            await self._target.tenant(tenant).put(await self._maker.stored(listed, made_by))
            self.digests |= {address_of(entry): digest(entry.memory) for entry in listed}

    async def _delete_others(self) -> int:
        """Delete memories from the target that the source does not have."""
        if (await self._target.health()).points <= len(self.digests):
            return 0
        others: list[Address] = []
        async for page in pages_of(self._target):
            others += [address_of(entry) for entry in page.entries if address_of(entry) not in self.digests]
        for tenant, ids in grouped(others).items():
            await self._target.tenant(tenant).delete(ids)
        return len(others)


async def pages_of(store: WholeStore, *, vectors: bool = False) -> AsyncIterator[Listing]:
    """Read all memories of a store page by page."""
    cursor = None
    while True:
        page = await store.listing(limit=PAGE, cursor=cursor, vectors=vectors)
        yield page
        cursor = page.cursor
        if cursor is None:
            return


@dataclass(frozen=True, slots=True)
class ExaminedRows:
    """How many memories were read, had a field that could not be read, or could not be read at all."""

    read: int = 0
    damaged: int = 0
    unreadable: int = 0


async def examined(store: WholeStore, seconds: float) -> ExaminedRows:
    """Read as many memories as possible in `seconds`."""
    ends, found = asyncio.get_running_loop().time() + seconds, ExaminedRows()
    async for page in pages_of(store):
        read = found.read + len(page.entries)
        found = ExaminedRows(read, found.damaged + page.damaged, found.unreadable + page.unreadable)
        if asyncio.get_running_loop().time() > ends:
            break
    return found


async def digests_of(store: WholeStore) -> dict[Address, bytes]:
    """Return a digest of each memory of a store, about 200 bytes per memory."""
    pages = pages_of(store)
    return {address_of(entry): digest(entry.memory) async for page in pages for entry in page.entries}


async def check_counts(source: WholeStore, target: WholeStore, unreadable: int) -> int:
    """Return the number of memories in both stores; raise `StoreError` if it differs."""
    expected = (await source.health()).points - unreadable
    found = (await target.health()).points
    if found != expected:
        raise StoreError(f"the copy has {found} memories instead of {expected}; nothing was changed")
    return found


def digest(memory: Memory) -> bytes:
    """Return a digest of all fields of a memory."""
    return hashlib.blake2b(memory.model_dump_json().encode("utf-8", "replace"), digest_size=16).digest()


def address_of(entry: Listed) -> Address:
    return entry.tenant, entry.memory.id


def grouped(addresses: Iterable[Address]) -> dict[str, list[str]]:
    """Return ids by tenant."""
    found: dict[str, list[str]] = {}
    for tenant, key in addresses:
        found.setdefault(tenant, []).append(key)
    return found


def by_tenant(entries: Iterable[Listed]) -> dict[str, list[Listed]]:
    found: dict[str, list[Listed]] = {}
    for entry in entries:
        found.setdefault(entry.tenant, []).append(entry)
    return found
