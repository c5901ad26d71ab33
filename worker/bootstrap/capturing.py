"""Open what captures memories from conversations."""

from worker.capture.nearby import NearbyMemories
from worker.capture.review import CaptureReview
from worker.capture.service import CaptureParts, CaptureService
from worker.domain.operation import AnyHandler
from worker.operations.capture import CaptureOperations, unavailable
from worker.ports.capture import CaptureStore
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import StoreEngine
from worker.settings.live import LiveSettings
from worker.store.memories import MemoryService

from .opening import utc_now


def capture_handlers(
    captures: CaptureStore | None,
    store: StoreEngine,
    sparse: SparseEncoder,
    embedder: Embedder | None,
    memories: MemoryService,
    live: LiveSettings,
) -> tuple[AnyHandler, ...]:
    """Return the handlers for one generation of the store; without a place for captures, they say what to do."""
    if captures is None:
        return unavailable()
    parts = CaptureParts(captures, NearbyMemories(store, sparse, embedder), memories, live.for_agent, utc_now)
    return CaptureOperations(CaptureService(parts), CaptureReview(parts), captures).handlers()
