"""What the decision logic needs from the outside world; implemented in `worker.adapters`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from .deadline import Deadline
from .kinds import SortKey
from .ledger import LedgerEntry, LedgerKey, LedgerView
from .model_calls import ChatReply, ChatRequest, DecisionReply, DecisionRequest
from .model_profile import ModelAbilities
from .models import (
    EmbedderProfile,
    Hit,
    HybridQuery,
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
from .receipt import Receipt, ReceiptPage, TurnOf
from .settings import InjectionConfig
from .usage import Usage


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


class ChatModel(Protocol):
    """A chat model. `complete` raises `ModelError` with the reason, within the deadline, after one upstream call."""

    @property
    def name(self) -> str: ...

    @property
    def abilities(self) -> ModelAbilities: ...

    async def complete(self, request: ChatRequest, deadline: Deadline) -> ChatReply: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class DecisionModel(Protocol):
    """A model that answers yes/no questions about a state. `decide` keeps to what is said of `ChatModel.complete`."""

    @property
    def name(self) -> str: ...

    async def decide(self, request: DecisionRequest, deadline: Deadline) -> DecisionReply: ...

    async def warm(self) -> None: ...

    async def aclose(self) -> None: ...


class Selector(Protocol):
    """Chooses what is worth injecting. `recall` searches again within the request's scope and limits."""

    async def select(
        self, task: SelectionTask, recalled: Recalled, recall: RecallTool, config: InjectionConfig, deadline: Deadline
    ) -> Selection: ...


class Ledger(Protocol):
    """What each session has been shown, per agent. Every method raises `QueueError` and nothing else of its own.

    A turn key is a turn's id and, after the last colon, a digest of the request: requests of one turn share its
    number and nothing else. What is offered counts for nothing until it is committed.
    """

    async def view(self, key: LedgerKey, turn_key: str, *, depth: int) -> LedgerView:
        """What was shown in the last `depth` turns, and lasting entries; older ones are forgotten.

        A turn that is not known yet begins; a known one has its number, and its answer where it has one.
        """
        ...

    async def peek(self, key: LedgerKey) -> LedgerView:
        """Everything that counts as shown, without beginning a turn; turn 0 where nothing is known."""
        ...

    async def offer(self, key: LedgerKey, turn_key: str, answer: str, shown: dict[str, LedgerEntry]) -> None: ...

    async def commit(self, key: LedgerKey, turn_key: str) -> bool: ...

    async def agents(self, tenant: str, session_id: str) -> tuple[str, ...]:
        """The agents of a session that have a ledger."""
        ...

    async def reset(self, key: LedgerKey) -> int:
        """Forget everything, offers and answers included; the number of memories that counted as shown."""
        ...

    async def drop(self, key: LedgerKey, entries: Mapping[str, LedgerEntry]) -> int:
        """Forget these entries, as far as they are still as given; ends a pending compaction."""
        ...

    async def pend(self, key: LedgerKey) -> None:
        """A compaction of what was shown up to now has begun."""
        ...

    async def adopt(self, key: LedgerKey, turn: int, entries: Mapping[str, LedgerEntry]) -> int:
        """Count these as shown too and go on from that turn's number; entries that are there already stand."""
        ...

    async def withdraw(self, key: LedgerKey, turn_id: str) -> int:
        """What a turn has committed was not shown after all; a later commit of it counts again."""
        ...

    async def blocks(self, tenant: str, block_ids: Sequence[str]) -> dict[str, LedgerEntry]:
        """The memories of blocks that were offered to any session of the tenant."""
        ...


class ReceiptStore(Protocol):
    """Keeps receipts for a while."""

    async def write(self, receipt: Receipt) -> None: ...

    async def read(self, tenant: str, receipt_id: str) -> Receipt: ...

    async def recent(self, tenant: str, limit: int, *, offset: int = 0) -> ReceiptPage:
        """The newest first, at most `limit`, after the `offset` newest ones."""
        ...

    async def of_turn(self, turn: TurnOf) -> list[Receipt]:
        """The receipts of one turn, of which there are several where its id was used for several messages."""
        ...


class UsageStore(Protocol):
    """How often memories were injected and used, per tenant. Every method raises `QueueError` and nothing else."""

    async def count(self, tenant: str, receipt_id: str, used: Mapping[str, bool], at: datetime) -> bool:
        """Count an answer, by id whether it used each memory of its block; `False` where it had been counted."""
        ...

    async def read(self, tenant: str, ids: Sequence[str]) -> dict[str, Usage]:
        """The counts of these memories, as far as there are any."""
        ...

    async def everything(self, tenant: str) -> dict[str, Usage]:
        """The counts of every memory of the tenant."""
        ...

    async def forget(self, tenant: str, ids: Sequence[str]) -> None: ...
