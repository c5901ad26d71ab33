"""Open what captures memories from conversations."""

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from worker.capture.model_capture import ModelCapture
from worker.capture.nearby import NearbyMemories
from worker.capture.reading import CaptureReader
from worker.capture.service import CaptureParts
from worker.domain.operation import AnyHandler, Handlers
from worker.hosts import HOSTS
from worker.operations.background_capture import CAPTURE_PACE, BackgroundCapture, BackgroundCaptureParts
from worker.operations.background_cues import PACE, Activity
from worker.operations.background_transcripts import (
    TRANSCRIPT_PACE,
    BackgroundTranscripts,
    TranscriptNotes,
    TranscriptReading,
)
from worker.operations.capture import CaptureOperations, unavailable
from worker.operations.local_client import LocalOperationClient
from worker.ports.capture import CaptureQueue, CaptureStore, TranscriptQueue
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.state import Ledger
from worker.ports.store import StoreEngine
from worker.ports.tracing import Tracer
from worker.settings.live import LiveSettings
from worker.settings.service import ServiceSettings
from worker.store.memories import MemoryService

from .opening import open_capture_reader, utc_now


@dataclass(slots=True)
class CaptureMaking:
    """A command without a service has no `captures` and `transcripts`; without a model to read, there is no `queue`."""

    service: ServiceSettings
    captures: CaptureStore | None
    queue: CaptureQueue | None
    transcripts: TranscriptQueue | None
    ledger: Ledger
    stack: AsyncExitStack
    tracer: Tracer
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
            self._reader = await open_capture_reader(self.service, self.stack, tracer=self.tracer)
        return self._reader

    def notes(self, live: LiveSettings) -> TranscriptNotes | None:
        """Return what hosts' events are noted in."""
        return None if self.transcripts is None else TranscriptNotes(self.transcripts, live.for_agent, utc_now)

    def start(self, handlers: Handlers, activity: Activity, live: LiveSettings) -> None:
        """Read transcripts, and let the model read what they say, in the background, until the stack closes."""
        client = LocalOperationClient(handlers)
        if self.transcripts is not None:
            roots = {name: Path.home() / host.transcripts for name, host in HOSTS.items() if host.transcripts}
            reading = TranscriptReading(client, self.transcripts, live.for_agent, roots, utc_now, TRANSCRIPT_PACE)
            self.stack.push_async_callback(BackgroundTranscripts(reading).aclose)
        if self.queue is not None:
            parts = BackgroundCaptureParts(client, self.queue, activity, utc_now, PACE, CAPTURE_PACE)
            self.stack.push_async_callback(BackgroundCapture(parts).aclose)
