"""Open what keeps the memories in order."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Self

from worker.adapters.redis.upkeep import RedisUpkeepRuns
from worker.capture.nearby import NearbyMemories
from worker.capture.review import CaptureReview
from worker.capture.service import CaptureParts
from worker.domain.operation import AnyHandler, Handlers
from worker.domain.upkeep import UpkeepRun, UpkeepStep
from worker.domain.zones import zone_of
from worker.operations.background_cues import Activity
from worker.operations.background_upkeep import BackgroundUpkeep, NightlyParts
from worker.operations.local_client import LocalOperationClient
from worker.operations.registry import UPKEEP_MAKE
from worker.operations.results import UpkeepMakeResult
from worker.operations.upkeep import UpkeepOperations, UpkeepStepOperations, unavailable
from worker.ports.capture import CaptureStore
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.state import UsageStore
from worker.ports.store import StoreEngine
from worker.ports.upkeep import UpkeepRuns
from worker.settings.live import LiveSettings
from worker.settings.service import ServiceSettings
from worker.store.memories import MemoryService
from worker.upkeep.planning import PlanParts
from worker.upkeep.runs import RunParts, UpkeepRunner
from worker.upkeep.steps import StepParts, UpkeepSteps

from .live_core import LiveCore
from .opening import utc_now

MAKE_S = 60.0
"""Seconds for some steps of a run."""

BUSY_S = 2.0
"""Seconds after an answer in which others may be waiting for one."""


@dataclass(frozen=True, slots=True)
class UpkeepMaking:
    """A command without a service has no `captures` and `runs`."""

    service: ServiceSettings
    captures: CaptureStore | None
    runs: UpkeepRuns | None
    usage: UsageStore
    live: LiveSettings

    @classmethod
    def of(
        cls, service: ServiceSettings, redis: Any, captures: CaptureStore | None, usage: UsageStore, live: LiveSettings
    ) -> Self:
        return cls(service, captures, RedisUpkeepRuns(redis) if redis is not None else None, usage, live)

    def step_handlers(
        self, store: StoreEngine, sparse: SparseEncoder, embedder: Embedder | None, memories: MemoryService
    ) -> tuple[AnyHandler, ...]:
        """Return the handlers that change memories, for one generation of the store."""
        if self.captures is None or self.runs is None:
            return ()
        nearby = NearbyMemories(store, sparse, embedder)
        review = CaptureReview(CaptureParts(self.captures, nearby, memories, self.live.for_agent, utc_now))
        steps = UpkeepSteps(StepParts(memories, self.captures, review))
        return UpkeepStepOperations(steps, self.runs).handlers()

    def start(
        self, handlers: Handlers, host: LiveCore, activity: Activity | None, stack: AsyncExitStack
    ) -> tuple[AnyHandler, ...]:
        """Run at night until `stack` closes; return the handlers that start and show runs."""
        if self.captures is None or self.runs is None:
            return unavailable()
        client = LocalOperationClient(handlers)

        async def make(run: UpkeepRun, steps: Sequence[UpkeepStep]) -> list[UpkeepStep]:
            bare = run.model_copy(update={"steps": ()})
            payload = {"run": bare.model_dump(mode="json"), "steps": [one.model_dump(mode="json") for one in steps]}
            done = await client.call(UPKEEP_MAKE, payload, budget=MAKE_S)
            return UpkeepMakeResult.model_validate(done).steps

        def threshold() -> float | None:
            serving, configured = host.serving, self.live.for_agent("main").semantic_threshold
            if serving.embedder is None or not serving.dense_usable:
                return None
            return serving.embedder.profile.duplicate if configured is None else configured

        def busy() -> bool:
            return activity is not None and activity.answered_within(BUSY_S)

        plan = PlanParts(host.store, self.captures, self.usage, threshold, busy, utc_now)
        runner = UpkeepRunner(RunParts(plan, self.runs, make, utc_now))

        nightly = NightlyParts(
            runner=runner,
            runs=self.runs,
            mode=self.service.upkeep,
            hour=self.service.upkeep_hour,
            zone=lambda: zone_of(self.live.for_agent("main").time_zone),
            clock=utc_now,
        )
        stack.push_async_callback(BackgroundUpkeep(nightly).aclose)
        return UpkeepOperations(runner, self.runs, host.store).handlers()
