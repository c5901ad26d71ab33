"""Make the steps of a run, and take them back.

A memory is changed only if it is as the run read it; a step that was made before is not made again. Nothing is deleted.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from worker.capture.replacing import pair_refusal, propose_replacing
from worker.capture.review import CaptureReview
from worker.domain.capture import Refusal
from worker.domain.errors import MemoryRejected, NotFound
from worker.domain.memory import Memory
from worker.domain.upkeep import KeptBefore, RunState, StepKind, StepState, UpkeepRun, UpkeepStep
from worker.ports.capture import CaptureStore
from worker.store.memories import MemoryService
from worker.store.superseding import closed_at_its_end, is_closed_at_its_end
from worker.store.writing import Change

from .merging import digest_of, is_merged, merged, unmerged

_MAYBE_MADE = (StepState.DONE, StepState.PLANNED)
"""A run that failed may have made a step that it had only planned."""


@dataclass(frozen=True, slots=True)
class StepParts:
    """What steps write to."""

    memories: MemoryService
    captures: CaptureStore
    review: CaptureReview


class UpkeepSteps:
    """Every failure raises; the same steps can be given again."""

    def __init__(self, parts: StepParts) -> None:
        self._parts = parts

    async def make(self, run: UpkeepRun, steps: Sequence[UpkeepStep]) -> list[UpkeepStep]:
        """Make the steps that are planned, and return what became of each."""
        done = {}
        for place, step in enumerate(steps):
            if step.state is StepState.PLANNED and step.kind is not StepKind.PROPOSE:
                done[place] = await self._make(run, step)
        proposals = {place: step for place, step in enumerate(steps) if step.kind is StepKind.PROPOSE}
        done |= zip(proposals, await self._propose(run, list(proposals.values())), strict=True)
        return [done.get(place, step) for place, step in enumerate(steps)]

    async def take_back(self, run: UpkeepRun) -> UpkeepRun:
        """Undo what a run has changed, and keep the next runs from doing it again."""
        with suppress(NotFound):
            await self._parts.review.undo(run.tenant, run.id)
        made = [step for step in run.steps if step.state in _MAYBE_MADE]
        salt = await self._parts.captures.salt()
        for step in made:
            if step.kind is StepKind.MERGE and step.before is not None:
                await self._unmerge(run, step, step.before)
            elif step.kind is StepKind.CLOSE:
                await self._reopen(run, step)
        await self._parts.captures.refuse(run.tenant, [one for step in made for one in refusals_of(step, salt)])
        steps = tuple(
            step.model_copy(update={"state": StepState.UNDONE}) if step.state in _MAYBE_MADE else step
            for step in run.steps
        )
        return run.model_copy(update={"state": RunState.UNDONE, "steps": steps})

    async def _make(self, run: UpkeepRun, step: UpkeepStep) -> UpkeepStep:
        if step.kind is StepKind.MERGE:
            return await self._merge(run, step)
        made = await self._changed(run, step.memory, _closing(step))
        return step.model_copy(update={"state": StepState.DONE if made else StepState.SKIPPED})

    async def _merge(self, run: UpkeepRun, step: UpkeepStep) -> UpkeepStep:
        """Close the duplicates, then give the kept memory what they have; leave out what was changed meanwhile."""
        others = [key for key in step.others if await self._changed(run, key, _closing_duplicate(run, step))]
        kept = await self._parts.memories.get(run.tenant, [step.memory])
        if others and kept and not is_merged(kept[0], others):
            found = await self._parts.memories.get(run.tenant, others)
            if not await self._changed(run, step.memory, _merging(step, found)):
                kept = []
        if others and kept:
            return step.model_copy(update={"others": tuple(others), "state": StepState.DONE})
        for key in others:
            await self._changed(run, key, _reopening_duplicate(run, step))
        return step.model_copy(update={"state": StepState.SKIPPED})

    async def _propose(self, run: UpkeepRun, steps: Sequence[UpkeepStep]) -> list[UpkeepStep]:
        """Propose what is as the run read it."""
        pairs, done = list[tuple[Memory, Memory]](), list[UpkeepStep]()
        for step in steps:
            found = await self._parts.memories.get(run.tenant, [step.memory, *step.others])
            same = len(found) == 2 and all(digest_of(one) == step.digests.get(one.id) for one in found)
            if same:
                pairs.append((found[0], found[1]))
            done.append(step.model_copy(update={"state": StepState.DONE if same else StepState.SKIPPED}))
        if pairs:
            await propose_replacing(self._parts.captures, run.tenant, run.id, run.at, pairs)
        return done

    async def _unmerge(self, run: UpkeepRun, step: UpkeepStep, before: KeptBefore) -> None:
        others = await self._parts.memories.get(run.tenant, step.others)
        gone = set(step.others) - {other.id for other in others}
        await self._changed(run, step.memory, lambda present: unmerged(_there(present), others, before, gone))
        for other in others:
            await self._changed(run, other.id, _reopening_duplicate(run, step))

    async def _reopen(self, run: UpkeepRun, step: UpkeepStep) -> None:
        def reopened(present: Memory | None) -> Memory:
            memory = _there(present)
            ours = is_closed_at_its_end(memory) and memory.valid_until == step.until
            return memory.model_copy(update={"superseded_at": None}) if ours else memory

        await self._changed(run, step.memory, reopened)

    async def _changed(self, run: UpkeepRun, key: str, change: Change) -> bool:
        """Change a memory; return `False` if it was deleted, or changed by others."""
        changes: Mapping[str, Change] = {key: change}
        try:
            await self._parts.memories.change(run.tenant, changes)
        except (NotFound, MemoryRejected):
            return False
        return True


def refusals_of(step: UpkeepStep, salt: str) -> list[Refusal]:
    """Return what keeps a step from being made again."""
    if step.kind is StepKind.CLOSE:
        return [pair_refusal(salt, step.memory, str(step.until))]
    return [pair_refusal(salt, step.memory, other) for other in step.others]


def _there(present: Memory | None) -> Memory:
    if present is None:
        raise NotFound("the memory was deleted")
    return present


def _as_read(present: Memory | None, step: UpkeepStep) -> Memory:
    """Return the memory if it is as the run read it. Raise `NotFound` or `MemoryRejected`."""
    memory = _there(present)
    if digest_of(memory) != step.digests.get(memory.id):
        raise MemoryRejected(f"the memory {memory.id} was changed meanwhile")
    return memory


def _closing(step: UpkeepStep) -> Change:
    def closed(present: Memory | None) -> Memory:
        memory = _there(present)
        if is_closed_at_its_end(memory) and memory.valid_until == step.until:
            return memory
        return closed_at_its_end(_as_read(memory, step))

    return closed


def _closing_duplicate(run: UpkeepRun, step: UpkeepStep) -> Change:
    def closed(present: Memory | None) -> Memory:
        memory = _there(present)
        if _is_closed_by(memory, run, step):
            return memory
        return _as_read(memory, step).model_copy(update={"superseded_by": step.memory, "superseded_at": run.at})

    return closed


def _reopening_duplicate(run: UpkeepRun, step: UpkeepStep) -> Change:
    def reopened(present: Memory | None) -> Memory:
        memory = _there(present)
        if not _is_closed_by(memory, run, step):
            return memory
        return memory.model_copy(update={"superseded_by": None, "superseded_at": None})

    return reopened


def _is_closed_by(memory: Memory, run: UpkeepRun, step: UpkeepStep) -> bool:
    """Return whether the step closed this memory; if the one that stayed was deleted since, only the time tells."""
    return memory.superseded_by in (None, step.memory) and memory.superseded_at == run.at


def _merging(step: UpkeepStep, others: Sequence[Memory]) -> Change:
    return lambda present: merged(_as_read(present, step), others)
