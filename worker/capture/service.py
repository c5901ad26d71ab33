"""Capture memories from turns of a conversation, undo captures, and decide on proposals.

A receipt with the changes is kept before the first of them is written, and ids follow from what was said, so that a
capture that was interrupted or is repeated writes nothing twice.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from hooks.contract.capture import CaptureMode, ConversationTurn
from worker.domain.capture import (
    MOST_PROPOSALS,
    PROPOSAL_DAYS,
    CapturedChange,
    CaptureReceipt,
    CaptureSource,
    CaptureState,
    CaptureWork,
    Change,
    ChangeKind,
    Drop,
    DropReason,
    Proposal,
    Stored,
)
from worker.domain.errors import MemoryRejected
from worker.domain.kinds import ReceiptKeep
from worker.domain.memory import SUPERSEDES, Memory, Relation
from worker.ports.capture import CaptureQueue, CaptureStore
from worker.settings.injection import InjectionConfig
from worker.store.memories import MemoryService

from .finding import Found, Frame, drop, find_explicit
from .fingerprints import is_refused
from .nearby import Near, NearbyMemories, conflicts_of, known_as, says_same
from .skipping import is_worth_reading, without_requests
from .window import Window, turn_key, windows

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class CaptureParts:
    """What captures need; `config_for` returns an agent's settings."""

    captures: CaptureStore
    nearby: NearbyMemories
    memories: MemoryService
    config_for: Callable[[str], InjectionConfig]
    clock: Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Captured:
    """The receipts of a capture, one for each window, and the number of the user's turns that were new.

    `waiting` says whether a model reads them, too. With `full`, later turns were not read, as enough proposals wait.
    """

    mode: CaptureMode
    new_turns: int = 0
    receipts: tuple[CaptureReceipt, ...] = ()
    waiting: bool = False
    full: bool = False


class CaptureService:
    """Reads conversations; every failure raises, and the same turns can be given again.

    With `queue`, a model reads the turns later, too.
    """

    def __init__(self, parts: CaptureParts, queue: CaptureQueue | None = None) -> None:
        self._parts = parts
        self._queue = queue

    async def capture(
        self, source: CaptureSource, turns: Sequence[ConversationTurn], mode: CaptureMode | None = None
    ) -> Captured:
        """Capture what new turns of the user say. Raise `QueueError` or `StoreError`; nothing is lost then."""
        config = self._parts.config_for(source.agent_id)
        wanted = mode or config.capture
        if wanted is CaptureMode.OFF:
            return Captured(wanted)
        keys = await asyncio.to_thread(lambda: [turn_key(source, turn) for turn in turns])
        known = await self._parts.captures.captured(source, keys)
        found = await asyncio.to_thread(windows, source, turns, known, config.strip_patterns)
        receipts, waiting, full = list[CaptureReceipt](), False, False
        for window in found:
            full = full or (wanted is CaptureMode.REVIEW and await self._has_enough_proposals(source))
            if full:
                break
            waiting = await self._enqueue(source, window, wanted, config) or waiting
            receipts.append(await self._explicit(source, window, wanted, config))
        return Captured(wanted, sum(len(window.keys) for window in found), tuple(receipts), waiting, full)

    async def _has_enough_proposals(self, source: CaptureSource) -> bool:
        return is_full(await self._parts.captures.proposals(source.tenant, self._parts.clock()), source)

    async def _explicit(
        self, source: CaptureSource, window: Window, mode: CaptureMode, config: InjectionConfig
    ) -> CaptureReceipt:
        frame = Frame(capture_id(source, window.keys), source, self._parts.clock(), config.languages)
        found = await checked_against_store(self._parts, find_explicit(window, frame), source, frame.now)
        receipt = CaptureReceipt(
            id=frame.capture,
            at=frame.now,
            source=source,
            mode=mode,
            turns=window.keys,
            drops=found.drops,
            changes=tuple(CapturedChange(change=change, id=change.memory.id) for change in found.changes),
        )
        return await settle(self._parts, receipt)

    async def _enqueue(self, source: CaptureSource, window: Window, mode: CaptureMode, config: InjectionConfig) -> bool:
        """Let a model read the window later, unless there is nothing in it; return whether it will."""
        rest = without_requests(window, config.languages)
        if self._queue is None or not is_worth_reading(rest, config.languages):
            return False
        work_id = capture_id(source, window.keys, "read")
        work = CaptureWork(id=work_id, source=source, mode=mode, window=rest.turns)
        await self._queue.put(work, self._parts.clock())
        return True


def is_full(waiting: Sequence[Proposal], source: CaptureSource) -> bool:
    """Return whether so many proposals of the source's user wait for review that no more are looked for."""
    return sum(one.source.user == source.user for one in waiting) >= MOST_PROPOSALS


async def checked_against_store(parts: CaptureParts, found: Found, source: CaptureSource, now: datetime) -> Found:
    """Return the changes that say something new."""
    near = await parts.nearby.near(source, [one.memory.content for one in found.changes], now)
    waiting = await parts.captures.proposals(source.tenant, now)
    refusals = await parts.captures.refusals(source.tenant)
    salt = await parts.captures.salt() if refusals else ""
    kept: list[Change] = []
    drops = list(found.drops)
    for change, others in zip(found.changes, near, strict=True):
        rest = [near for near in others if near.memory.id != change.target]
        reason = _needless(change, rest, kept, waiting)
        if reason is None and is_refused(change.memory, refusals, salt, only_lasting=False):
            reason = drop(DropReason.REJECTED_BEFORE, change.memory.content)
        if reason is not None:
            drops.append(reason)
        else:
            kept.append(change.model_copy(update={"conflicts": conflicts_of(change.memory, rest)}))
    return Found(tuple(kept), tuple(drops))


async def settle(parts: CaptureParts, receipt: CaptureReceipt) -> CaptureReceipt:
    """Write or propose the changes of a capture, and finish it; one that was settled before stays as it is."""
    begun = await parts.captures.begin(receipt)
    if begun.state is not CaptureState.WRITING:
        return begun
    keep = parts.config_for(begun.source.agent_id).receipt_keep
    if begun.mode is CaptureMode.REVIEW:
        return await _proposed(parts, begun, keep)
    done = []
    drops = list(begun.drops)
    for one in begun.changes:
        try:
            memory_id, stored = await write(parts, begun.source.tenant, one.change)
            done.append(one.model_copy(update={"id": memory_id, "stored": stored}))
        except MemoryRejected:
            drops.append(drop(DropReason.BAD_TARGET, one.change.memory.content, one.change.target))
    return await _finished(parts, begun, done, drops, [], keep)


async def _proposed(parts: CaptureParts, receipt: CaptureReceipt, keep: ReceiptKeep) -> CaptureReceipt:
    made = [_proposal(receipt, one.change) for one in receipt.changes]
    changes = [CapturedChange(change=one.change, stored=Stored.PROPOSED, id=one.id) for one in made]
    return await _finished(parts, receipt, changes, receipt.drops, made, keep)


async def _finished(
    parts: CaptureParts,
    receipt: CaptureReceipt,
    changes: Sequence[CapturedChange],
    drops: Sequence[Drop],
    proposals: Sequence[Proposal],
    keep: ReceiptKeep,
) -> CaptureReceipt:
    update = {"state": CaptureState.DONE, "changes": tuple(changes), "drops": tuple(drops)}
    finished = receipt.model_copy(update=update)
    await parts.captures.finish(_kept(finished, keep), proposals)
    log.info("captured", changes=len(changes), left_out=len(drops), mode=receipt.mode.value)
    return finished


async def write(parts: CaptureParts, tenant: str, change: Change) -> tuple[str, Stored]:
    """Store the memory of a change, and return its id. Raise `MemoryRejected` if its target does not allow it."""
    memory = with_target(change)
    report = await parts.memories.remember(tenant, memory, now=parts.clock(), keep_same=True)
    (kept,) = report.created or report.updated or report.unchanged
    return kept, Stored.UNCHANGED if report.unchanged else Stored.CREATED


def with_target(change: Change) -> Memory:
    """Return the memory of a change with its relation to the memory that it replaces."""
    if change.target is None or change.kind is ChangeKind.ADD:
        return change.memory
    kind = "updates" if change.kind is ChangeKind.UPDATE else SUPERSEDES
    relations = (*change.memory.relations, Relation(kind=kind, target=change.target))
    return change.memory.model_copy(update={"relations": relations})


def capture_id(source: CaptureSource, keys: Sequence[str], *more: str) -> str:
    """Return the id of a capture, which follows from its turns and how they were read."""
    parts = json.dumps([source.tenant, source.user, source.agent_id, list(keys), *more])
    return "c" + hashlib.sha256(parts.encode()).hexdigest()[:24]


def _needless(
    change: Change, others: Sequence[Near], batch: Sequence[Change], waiting: Sequence[Proposal]
) -> Drop | None:
    """Return why a change says nothing new: it is stored, waits, or was said twice."""
    text = change.memory.content
    if (known := known_as(change.memory, others)) is not None:
        return drop(DropReason.KNOWN, text, known)
    if any(says_same(text, one.memory.content, None) for one in batch):
        return drop(DropReason.KNOWN, text)
    theirs = ((one.id, one.change.memory) for one in waiting)
    mine = ((key, memory) for key, memory in theirs if _owner(memory) == _owner(change.memory))
    again = next((key for key, memory in mine if says_same(text, memory.content, None)), None)
    return None if again is None else drop(DropReason.WAITING, text, again)


def _owner(memory: Memory) -> tuple[object, ...]:
    return memory.scope, memory.channel if memory.scope.user is None else None


def _proposal(receipt: CaptureReceipt, change: Change) -> Proposal:
    digest = hashlib.sha256(f"{receipt.id}\0{change.memory.id}".encode()).hexdigest()
    return Proposal(
        id="p" + digest[:16],
        at=receipt.at,
        expires_at=receipt.at + timedelta(days=PROPOSAL_DAYS),
        source=receipt.source,
        capture=receipt.id,
        change=change,
    )


def _kept(receipt: CaptureReceipt, keep: ReceiptKeep) -> CaptureReceipt:
    """Return the receipt as it is kept: without the texts of what was left out, if receipts keep no texts."""
    if keep is ReceiptKeep.EVERYTHING:
        return receipt
    return receipt.model_copy(update={"drops": tuple(one.model_copy(update={"text": ""}) for one in receipt.drops)})
