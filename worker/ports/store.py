"""A whole store, all tenants of it, and the generations that a store goes through. What `worker.adapters` implements.

A store is never converted in place: a change of its recipes makes a new generation beside the live one, and one small
step then says which is live. The former one is kept until it is thrown away.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from worker.domain.kinds import SortKey
from worker.domain.memory import (
    EmbedderProfile,
    Hit,
    HybridQuery,
    Listing,
    Memory,
    MemoryFilter,
    Page,
    StoredMemory,
    StoreHealth,
)

from .store_record import StoreRecord


class MemoryStore(Protocol):
    """The memories of one tenant. Every method raises `StoreError` and nothing else of its own."""

    async def search(self, query: HybridQuery) -> list[Hit]: ...

    async def search_many(self, queries: Sequence[HybridQuery]) -> list[list[Hit]]:
        """Several searches in one request; one list of hits each, as `search` brings it.

        A query without terms and without a usable vector brings none; that all are such is an error.
        """
        ...

    async def ordered(self, where: MemoryFilter, by: SortKey, *, limit: int) -> list[Hit]:
        """The first memories in an order that no query has a part in, equal ones by id; hits without scores."""
        ...

    async def get(self, ids: Sequence[str]) -> list[Memory]: ...

    async def put(self, memories: Sequence[StoredMemory]) -> None: ...

    async def amend(self, memories: Sequence[Memory]) -> None:
        """Replace memories that are there, their content unchanged; their vectors stay. Unknown ones are ignored."""
        ...

    async def delete(self, ids: Sequence[str]) -> int: ...

    async def scroll(self, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page: ...

    async def count(self, where: MemoryFilter | None = None) -> int: ...


class StoreEngine(Protocol):
    """An open store; memories are only reachable through a tenant's handle."""

    def tenant(self, name: str) -> MemoryStore: ...

    async def health(self) -> StoreHealth: ...

    async def flush(self) -> None: ...

    async def aclose(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """By which a store is to be made or read: the embedder's profile, if any, and the hash of the BM25 recipe."""

    profile: EmbedderProfile | None
    bm25_hash: str

    @property
    def record(self) -> StoreRecord:
        return StoreRecord.of(self.profile, self.bm25_hash)


class WholeStore(StoreEngine, Protocol):
    """An open store that can be gone through as a whole."""

    async def record(self) -> StoreRecord:
        """The recipes that its vectors were made by."""
        ...

    async def listing(self, *, limit: int, cursor: str | None = None, vectors: bool = False) -> Listing:
        """A page of the memories of every tenant. `vectors` only where the record names an embedder."""
        ...


@dataclass(frozen=True, slots=True)
class Generations:
    """Names of the generations: the one in use, former ones (newest first), and one that is not finished."""

    live: str
    previous: tuple[str, ...] = ()
    draft: str | None = None

    def promoted(self, name: str) -> "Generations":
        """With `name` live and the one that was live before kept."""
        previous = [self.live, *(former for former in self.previous if former != name)]
        return Generations(name, tuple(previous), None if self.draft == name else self.draft)

    def without(self, name: str) -> "Generations":
        previous = tuple(former for former in self.previous if former != name)
        return Generations(self.live, previous, None if self.draft == name else self.draft)


class StoreGenerations(Protocol):
    """Where the generations of one store are. Every method raises `StoreError`."""

    @property
    def shared(self) -> bool:
        """Whether other processes may write to the live generation."""
        ...

    @property
    def live_name(self) -> str:
        """The generation that was opened as the live one, or the name that leads to it."""
        ...

    @property
    def settle_s(self) -> float:
        """Seconds after which every process that shares the store writes to what was promoted."""
        ...

    async def generations(self) -> Generations: ...

    async def open(self, name: str, recipe: Recipe) -> WholeStore:
        """Open a generation, or make it; one of other recipes opens with the fault in its health."""
        ...

    async def open_live(self, recipe: Recipe) -> WholeStore:
        """Open the generation in use."""
        ...

    async def begin(self) -> str:
        """The name of a new draft."""
        ...

    async def promote(self, name: str) -> None:
        """Make a generation the live one, in one step that has happened or has not, whatever happens."""
        ...

    async def discard(self, name: str) -> None:
        """Delete a generation that is not live."""
        ...
