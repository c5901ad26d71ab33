"""Protocols for the memory store and its generations.

A store is never converted in place. A change of recipes fills a new generation beside the live one, and one atomic step
makes it live. The former generation is kept until it is discarded.
"""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from worker.domain.kinds import SortKey
from worker.domain.memory import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Memory,
    MemoryFilter,
    Replacement,
    StoredMemory,
    StoredState,
)
from worker.domain.pages import Listing, Page
from worker.domain.store_health import StoreHealth

from .store_record import StoreRecord


class MemoryStore(Protocol):
    """The memories of one tenant. Methods raise `StoreError`."""

    async def search(self, query: HybridQuery) -> list[Hit]: ...

    async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        """Run several searches in one request and return the hits of each.

        A query without terms and without a usable vector has no hits. Raise `StoreError` if all queries are like that.
        """
        ...

    async def ordered(self, where: MemoryFilter, by: SortKey, *, limit: int) -> list[Hit]:
        """Return the first memories in the given order, ties by id, as hits without scores."""
        ...

    async def get(self, ids: Sequence[str]) -> list[Memory]: ...

    async def states(self, ids: Sequence[str]) -> dict[str, StoredState]:
        """Return what is stored under these ids, for a later `replace`."""
        ...

    async def put(self, memories: Sequence[StoredMemory]) -> None:
        """Store memories, whatever is stored under their ids."""
        ...

    async def replace(self, changes: Sequence[Replacement]) -> list[str]:
        """Make each change whose expected revision is still the stored one, atomically; return the ids of the others.

        Give each id once. A memory that was deleted meanwhile stays deleted.
        """
        ...

    async def delete(self, ids: Sequence[str]) -> int: ...

    async def scroll(self, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page: ...

    async def count(self, where: MemoryFilter | None = None) -> int: ...


class StoreEngine(Protocol):
    """An open store; use `tenant` to reach memories."""

    def tenant(self, name: str) -> MemoryStore: ...

    async def health(self) -> StoreHealth: ...

    async def flush(self) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to make or read a store's vectors: the embedder's profile, if any, and the hash of the BM25 recipe."""

    profile: EmbedderProfile | None
    bm25_hash: str

    @property
    def record(self) -> StoreRecord:
        return StoreRecord.of(self.profile, self.bm25_hash)


class WholeStore(StoreEngine, Protocol):
    """An open store with access to the memories of every tenant."""

    async def record(self) -> StoreRecord:
        """Return the recipes of the stored vectors."""
        ...

    async def listing(self, *, limit: int, cursor: str | None = None, vectors: bool = False) -> Listing:
        """Return a page of every tenant's memories; request `vectors` only if the record has an embedder."""
        ...


@dataclass(frozen=True, slots=True)
class Generations:
    """Names of a store's generations: live, former ones (newest first), and an unfinished draft."""

    live: str
    previous: tuple[str, ...] = ()
    draft: str | None = None

    def promoted(self, name: str) -> "Generations":
        """Return the generations with `name` live and the former live one kept."""
        previous = [self.live, *(former for former in self.previous if former != name)]
        return Generations(name, tuple(previous), None if self.draft == name else self.draft)

    def without(self, name: str) -> "Generations":
        previous = tuple(former for former in self.previous if former != name)
        return Generations(self.live, previous, None if self.draft == name else self.draft)


class StoreGenerations(Protocol):
    """The generations of one store. Methods raise `StoreError`."""

    @property
    def shared(self) -> bool:
        """Return whether other processes may write to the live generation."""
        ...

    @property
    def live_name(self) -> str:
        """Return the name of the generation opened as live, or an alias of it."""
        ...

    @property
    def settle_s(self) -> float:
        """Return the seconds until all processes write to a promoted generation."""
        ...

    async def generations(self) -> Generations: ...

    async def open(self, name: str, recipe: Recipe) -> WholeStore:
        """Open or create a generation; if its recipes differ, its health reports the fault."""
        ...

    async def open_live(self, recipe: Recipe) -> WholeStore: ...

    def exclusive(self) -> AbstractAsyncContextManager[None]:
        """Hold the right to begin, promote and discard generations; raise `StoreError` if another process has it."""
        ...

    async def begin(self) -> str:
        """Return the name of a new draft."""
        ...

    async def promote(self, name: str) -> None:
        """Make a generation live, atomically."""
        ...

    async def discard(self, name: str) -> None:
        """Delete a generation that is not live."""
        ...
