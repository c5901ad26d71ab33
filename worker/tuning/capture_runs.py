"""Run capture on labelled conversations, each with a store of its own that holds what its case says."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from hooks.contract.capture import CaptureMode
from worker.adapters.local.ledger import MemoryLedger
from worker.adapters.models.minilm import MiniLmEmbedder
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.capture.finding import Found, Frame, find_explicit
from worker.capture.model_capture import ModelCapture
from worker.capture.nearby import NearbyMemories
from worker.capture.reading import CaptureReader
from worker.capture.service import CaptureParts, capture_id, checked_against_store
from worker.capture.skipping import is_worth_reading, without_requests
from worker.capture.window import Window, windows
from worker.domain.capture import CaptureReceipt, CaptureSource, CaptureWork, Change, Proposal, Refusal
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, NotFound
from worker.domain.ledger import LedgerEntry, LedgerKey
from worker.domain.memory import Memory
from worker.ports.capture import Revision
from worker.ports.state import Ledger
from worker.settings.injection import InjectionConfig
from worker.store.memories import MemoryService
from worker.transfer.entries import memory_from

from .capture_cases import CaptureCase, CaptureRun, FoundOperation

OWNER = "user"
CALL_S = 120.0
"""Seconds that one call of the model may take."""


@dataclass(frozen=True, slots=True)
class CaptureRunner:
    """`reader` is the model that reads what nobody asked to remember; without one, only requests are found."""

    parts: CaptureParts
    ledger: Ledger
    reader: CaptureReader | None = None

    async def run(self, case: CaptureCase) -> CaptureRun:
        """Return what capture finds in a case. Raise `StoreError`."""
        source = CaptureSource(tenant=case.id, session_id=case.id, user=OWNER)
        await self.parts.memories.put(case.id, [_memory(case, place) for place in range(len(case.memories))])
        await self._show(case)
        run = CaptureRun(case)
        for window in windows(source, case.turns, frozenset()):
            run = await self._read(run, source, window)
        return run

    async def _read(self, run: CaptureRun, source: CaptureSource, window: Window) -> CaptureRun:
        languages = self.parts.config_for(source.agent_id).languages
        frame = Frame(capture_id(source, window.keys), source, self.parts.clock(), languages)
        explicit = find_explicit(window, frame)
        run = _with(run, await checked_against_store(self.parts, explicit, source, frame.now))
        rest = without_requests(window, languages)
        if self.reader is None or not is_worth_reading(rest, languages):
            return run
        model = ModelCapture(self.parts, self._opened, self.ledger)
        run = replace(run, calls=run.calls + 1)
        work = CaptureWork(id=frame.capture, source=source, mode=CaptureMode.REVIEW, window=rest.turns)
        try:
            reading = await model.read(work, Deadline.after(CALL_S))
        except ModelError as error:
            return replace(run, failed=str(error))
        tokens = run.tokens + reading.input_tokens + reading.output_tokens
        run = replace(run, tokens=tokens, near=run.near | set(reading.candidates))
        return _with(run, Found(reading.changes, reading.drops))

    async def _opened(self) -> CaptureReader:
        assert self.reader is not None
        return self.reader

    async def _show(self, case: CaptureCase) -> None:
        """Tell the ledger what the session was shown."""
        if not case.shown:
            return
        key = LedgerKey(case.id, case.id, "main")
        texts = {memory.id: memory.text for memory in case.memories}
        entries = {shown: LedgerEntry(1, 1, "shown", texts[shown]) for shown in case.shown}
        await self.ledger.view(key, "before", depth=1)
        await self.ledger.offer(key, "before", "", entries)
        await self.ledger.commit(key, "before")


def _memory(case: CaptureCase, place: int) -> Memory:
    given = case.memories[place]
    fields = {"id": given.id, "content": given.text, "type": given.type, "scope": {"user": OWNER}}
    return memory_from({**fields, "created_at": given.date}, None)


def _with(run: CaptureRun, found: Found) -> CaptureRun:
    operations = (*run.found, *map(_operation, found.changes))
    return replace(run, found=operations, drops=(*run.drops, *(one.reason.value for one in found.drops)))


def _operation(change: Change) -> FoundOperation:
    day = change.memory.occurred_at
    return FoundOperation(change.kind, change.memory.content, change.target, day.date() if day else None)


class _NoCaptures:
    """A `CaptureStore` in which nothing was captured before; nothing is written to it."""

    async def captured(self, source: CaptureSource, keys: Sequence[str]) -> frozenset[str]:
        return frozenset()

    async def begin(self, receipt: CaptureReceipt) -> CaptureReceipt:
        return receipt

    async def finish(self, receipt: CaptureReceipt, proposals: Sequence[Proposal]) -> None: ...

    async def revise(self, tenant: str, capture_id: str, revised: Revision) -> CaptureReceipt:
        raise NotFound(capture_id)

    async def read(self, tenant: str, capture_id: str) -> CaptureReceipt:
        raise NotFound(capture_id)

    async def recent(self, tenant: str, limit: int) -> list[CaptureReceipt]:
        return []

    async def proposals(self, tenant: str, now: datetime) -> list[Proposal]:
        return []

    async def take(self, tenant: str, proposal_ids: Collection[str]) -> int:
        return 0

    async def refuse(self, tenant: str, refusals: Sequence[Refusal]) -> None: ...

    async def allow(self, tenant: str, refusals: Sequence[Refusal]) -> None: ...

    async def refusals(self, tenant: str) -> list[Refusal]:
        return []

    async def salt(self) -> str:
        return ""


@asynccontextmanager
async def open_capture_runner(folder: Path, reader: CaptureReader | None = None) -> AsyncIterator[CaptureRunner]:
    """Open a store in `folder` in which every case is a tenant."""
    embedder, sparse, settings = MiniLmEmbedder(), Bm25Encoder(), InjectionConfig()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(embedder.aclose)
        engine = await EdgeStore.open(folder / "memories", profile=embedder.profile, bm25_hash=sparse.config_hash)
        stack.push_async_callback(engine.aclose)
        nearby, memories = NearbyMemories(engine, sparse, embedder), MemoryService(engine, sparse, embedder)
        parts = CaptureParts(_NoCaptures(), nearby, memories, lambda _: settings, lambda: datetime.now(UTC))
        yield CaptureRunner(parts, MemoryLedger(), reader)
