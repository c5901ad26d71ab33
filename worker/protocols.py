"""What the decision logic needs from the outside world; implemented in `worker.adapters`."""

from collections.abc import Sequence
from typing import Protocol

from .deadline import Deadline
from .models import (
    ChatReply,
    ChatRequest,
    EmbedderProfile,
    Hit,
    HybridQuery,
    LedgerEntry,
    LedgerKey,
    LedgerView,
    Memory,
    MemoryFilter,
    Page,
    Recalled,
    RecallTool,
    Selection,
    SelectionTask,
    SparseVector,
    StoredMemory,
    StoreHealth,
    Vector,
)
from .receipt import Receipt
from .settings import InjectionConfig


class Embedder(Protocol):
    """Turns texts into unit vectors of `profile.dimension` floats. Raises `EmbedderError`; never blocks the loop."""

    @property
    def profile(self) -> EmbedderProfile: ...

    async def embed_query(self, text: str) -> Vector: ...

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class SparseEncoder(Protocol):
    """Turns texts into BM25 term vectors; `config_hash` names the recipe."""

    @property
    def config_hash(self) -> str: ...

    def query(self, text: str) -> SparseVector: ...

    def passage(self, text: str) -> SparseVector: ...


class MemoryStore(Protocol):
    """The memories of one tenant. Every method raises `StoreError` and nothing else of its own."""

    async def search(self, query: HybridQuery) -> list[Hit]: ...

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


class ChatModel(Protocol):
    """A chat model. `complete` raises `ModelError` with the reason, within the deadline, after one upstream call."""

    @property
    def name(self) -> str: ...

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class Selector(Protocol):
    """Chooses what is worth injecting. `recall` searches again within the request's scope and limits."""

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection: ...


class Ledger(Protocol):
    """What each session has been shown. `offer` is undone by nothing and counts for nothing until it is committed."""

    async def view(self, key: LedgerKey, turn_id: str) -> LedgerView: ...

    async def offer(self, key: LedgerKey, turn_id: str, answer: str, shown: dict[str, LedgerEntry]) -> None: ...

    async def commit(self, key: LedgerKey, turn_id: str) -> bool: ...


class ReceiptStore(Protocol):
    """Keeps receipts for a while."""

    async def write(self, receipt: Receipt) -> None: ...

    async def read(self, tenant: str, receipt_id: str) -> Receipt: ...

    async def recent(self, tenant: str, limit: int) -> list[Receipt]: ...
