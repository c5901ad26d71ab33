"""Measure what the cues of a model bring: labelled tasks before and after it wrote cues for their memories."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from worker.adapters.local.usage import FileUsage
from worker.domain.operation import by_name
from worker.operations.enrichment import Enrichment, EnrichmentLimits, EnrichmentReport, Price
from worker.operations.local_client import LocalOperationClient
from worker.operations.memories import MemoryOperations
from worker.relevance.model import Adjustment
from worker.triage.cue_writer import CueWriter

from .labelled_worlds import LabelledWorld
from .relevance_fit import Scored
from .relevance_measures import ChoiceEffect, Rated, Rater, as_clean, measured, values_of
from .world_store import WorldStore

CLEAN = 0.97
"""Share of the tasks without relevant memories that the thresholds leave empty."""

RATERS = (Rater.RELEVANCE_MODEL, Rater.COSINE)


@dataclass(frozen=True, slots=True)
class CueEffect:
    """`before` and `after` measure each rater with the lowest threshold that leaves a share `clean` of turns clean.

    The threshold is fitted to these very tasks, so only the difference counts.
    """

    tasks: int
    memories: int
    clean: float
    before: Mapping[Rater, ChoiceEffect]
    after: Mapping[Rater, ChoiceEffect]


@dataclass(slots=True)
class CueWriting:
    """The writing of cues on an open store; `report` adds up over all worlds."""

    store: WorldStore
    folder: Path
    writer: CueWriter
    price: Price | None
    limits: EnrichmentLimits
    report: EnrichmentReport = field(default_factory=EnrichmentReport)

    async def written(self, world: LabelledWorld, advance: Callable[[int], None]) -> None:
        """Let the model write cues for a stored world, within what is left of the limits."""
        memories = MemoryOperations(
            self.store.memory_service, FileUsage(self.folder / "usage.json"), lambda: datetime.now(UTC)
        )
        client = LocalOperationClient(by_name(memories.handlers()))
        run = Enrichment(client, self.writer, world.name, self.limits, self.price)
        self.report = await run.run(world.memories, advance, self.report)


def effect_of(before: Sequence[Scored], after: Sequence[Scored], memories: int, most: int) -> CueEffect:
    """Compare the same tasks without and with cues. Pure."""
    return CueEffect(len(before), memories, CLEAN, _measured(before, most), _measured(after, most))


def _measured(scored: Sequence[Scored], most: int) -> dict[Rater, ChoiceEffect]:
    own = [one.rated(Adjustment()) for one in scored]
    found = {}
    for rater in RATERS:
        rated = own if rater is Rater.RELEVANCE_MODEL else [Rated(one.case, values_of(one, rater)) for one in own]
        found[rater] = measured(rated, as_clean(rated, CLEAN), most)
    return found
