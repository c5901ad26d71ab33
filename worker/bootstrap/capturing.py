"""Open what captures memories from conversations."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from worker.capture.model_capture import ModelCapture
from worker.capture.nearby import NearbyMemories
from worker.capture.reading import CaptureReader
from worker.capture.service import CaptureParts
from worker.domain.operation import AnyHandler, Handlers
from worker.operations.background_capture import CAPTURE_PACE, BackgroundCapture, BackgroundCaptureParts
from worker.operations.background_cues import PACE, Activity
from worker.operations.capture import CaptureOperations, unavailable
from worker.operations.local_client import LocalOperationClient
from worker.ports.capture import CaptureQueue, CaptureStore
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.state import Ledger
from worker.ports.store import StoreEngine
from worker.settings.live import LiveSettings
from worker.settings.service import ServiceSettings
from worker.store.memories import MemoryService

from .opening import open_capture_reader, utc_now


@dataclass(slots=True)
class CaptureMaking:
    """`captures` is `None` in a command without a service, `queue` if no model reads conversations."""

    service: ServiceSettings
    captures: CaptureStore | None
    queue: CaptureQueue | None
    ledger: Ledger
    stack: AsyncExitStack
    _reader: CaptureReader | None = field(default=None, init=False)

    def handlers(
        self,
        store: StoreEngine,
        sparse: SparseEncoder,
        embedder: Embedder | None,
        memories: MemoryService,
        live: LiveSettings,
    ) -> tuple[AnyHandler, ...]:
        """Return the handlers for one generation of the store; without a place for captures, they say what to do."""
        if self.captures is None:
            return unavailable()
        nearby = NearbyMemories(store, sparse, embedder)
        parts = CaptureParts(self.captures, nearby, memories, live.for_agent, utc_now)
        model = ModelCapture(parts, self._open_reader, self.ledger) if self.queue is not None else None
        return CaptureOperations(parts, self.queue, model).handlers()

    async def _open_reader(self) -> CaptureReader:
        if self._reader is None:
            self._reader = await open_capture_reader(self.service, self.stack)
        return self._reader

    def start(self, handlers: Handlers, activity: Activity) -> None:
        """Let the model read in the background, until the stack closes."""
        if self.queue is not None:
            client = LocalOperationClient(handlers)
            parts = BackgroundCaptureParts(client, self.queue, activity, utc_now, PACE, CAPTURE_PACE)
            self.stack.push_async_callback(BackgroundCapture(parts).aclose)
