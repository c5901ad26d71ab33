"""A whole store, all tenants of it, and the generations that a store goes through. What `worker.adapters` implements.

A store is never converted in place: a change of its recipes makes a new generation beside the live one, and one small
step then says which is live. The former one is kept until it is thrown away.
"""

from dataclasses import dataclass
from typing import Protocol

from .models import EmbedderProfile, Listing
from .payload import StoreRecord
from .protocols import StoreEngine


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


class Shelf(Protocol):
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
