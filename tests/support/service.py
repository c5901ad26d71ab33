"""A whole service in the test's process: real embedded store, real embedder, ledger in memory, model as given."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from hooks.contract import InjectionRequest, InjectionResult
from worker.adapters.local.ledger import MemoryLedger
from worker.adapters.local.receipts import FileReceipts
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.deadline import Deadline
from worker.domain.memory import Memory
from worker.domain.receipt import Receipt
from worker.injection.search_only import SearchOnlySelector
from worker.injection.service import Injection, InjectionParts, InjectionService, NoteUse
from worker.injection.strategies import Strategies
from worker.ports.models import ChatModel, Embedder, Selector
from worker.ports.state import Ledger
from worker.ports.store import StoreEngine
from worker.recall.recall import Recall
from worker.settings.injection import InjectionConfig
from worker.store.memories import MemoryService
from worker.transfer.entries import memory_from
from worker.triage.breaker import CircuitBreaker
from worker.triage.chat_selector import LlmSelector
from worker.triage.live_selector import presenter
from worker.triage.prompt_files import default_prompts_dir, load_prompts

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


@dataclass
class Service:
    """What tests do with a service; `commit` stands for the hook's part."""

    injection: InjectionService
    memory_service: MemoryService
    recall: Recall
    ledger: Ledger
    receipts: FileReceipts
    config: InjectionConfig
    engine: StoreEngine
    tenants: list[str] = field(default_factory=list)

    async def put(self, memories: Sequence[dict[str, Any]], tenant: str = "t1") -> None:
        await self.memory_service.put(tenant, [memory_from(dict(memory), NOW) for memory in memories])

    async def ask(self, message: str, *, turn: str = "1", commit: bool = True, **fields: Any) -> InjectionResult:
        """One request of session s1 in tenant t1, unless `fields` say otherwise."""
        raw = {"session_id": "s1", "turn_id": turn, "message": message, "scope": {"tenant": "t1"}, **fields}
        request = InjectionRequest.model_validate(raw)
        injection = await self.injection.inject(request, Deadline.after(request.deadline_ms / 1000))
        if commit:
            await self.commit(injection)
        return injection.result

    async def commit(self, injection: Injection) -> None:
        if injection.delivery is not None:
            assert await self.ledger.commit(injection.delivery.key, injection.delivery.turn_key)

    async def receipt(self, result: InjectionResult, tenant: str = "t1") -> Receipt:
        await self.injection.drain()
        assert result.receipt_id is not None
        return await self.receipts.read(tenant, result.receipt_id)


def ids(result: InjectionResult) -> list[str]:
    return [item.id for item in result.items]


@lru_cache
def shared_minilm() -> MiniLmEmbedder:
    """One for all tests: loading the weights takes longer than most tests."""
    return MiniLmEmbedder()


@asynccontextmanager
async def open_service(
    folder: Path,
    *,
    model: ChatModel | None = None,
    embedder: Embedder | None = None,
    ledger: Ledger | None = None,
    relevance_model: Selector | None = None,
    triage: Selector | None = None,
    decision: Selector | None = None,
    chosen: NoteUse | None = None,
    **config: Any,
) -> AsyncIterator[Service]:
    """A service on a store in `folder`; `config` are settings of `[memory_injection]`.

    `triage` is another selector than one of the single chat model `model`.
    """
    used: Embedder = embedder or shared_minilm()
    sparse = Bm25Encoder("english")
    engine: StoreEngine = await EdgeStore.open(folder / "memories", profile=used.profile, bm25_hash=sparse.config_hash)
    settings = InjectionConfig.model_validate(config)
    recall = Recall(engine, sparse, used)
    ledger = ledger or MemoryLedger()
    receipts = FileReceipts(folder / "receipts")
    prompt = load_prompts(default_prompts_dir())["triage"]
    if model is not None:
        triage = LlmSelector(model, prompt, CircuitBreaker(), present=presenter(settings))
    injection = InjectionService(
        InjectionParts(
            recall=recall,
            strategies=Strategies(
                SearchOnlySelector(used.profile), llm=triage, decision=decision, relevance_model=relevance_model
            ),
            ledger=ledger,
            receipts=receipts,
            config_for=lambda _: settings,
            clock=lambda: NOW,
            profile=used.profile,
            chosen=chosen,
        )
    )
    try:
        yield Service(injection, MemoryService(engine, sparse, used), recall, ledger, receipts, settings, engine)
    finally:
        await injection.drain()
        await engine.aclose()


def fact(memory_id: str, text: str, **fields: Any) -> dict[str, Any]:
    """A memory as the scenarios give them."""
    return {"id": memory_id, "content": text, "type": "fact", "created_at": "2026-01-10T09:00:00Z", **fields}


def as_memory(raw: dict[str, Any]) -> Memory:
    return memory_from(dict(raw), NOW)
