"""Proposals that a stored memory replaces another stored one: nothing new is written when they are accepted."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from hooks.contract.capture import CaptureMode
from worker.domain.capture import (
    PROPOSAL_DAYS,
    CapturedChange,
    CaptureReceipt,
    CaptureSource,
    CaptureState,
    Change,
    ChangeKind,
    Proposal,
    Refusal,
    Stored,
)
from worker.domain.errors import MemoryRejected, NotFound
from worker.domain.memory import SUPERSEDES, Memory, Relation
from worker.ports.capture import CaptureStore
from worker.store.memories import MemoryService

from .fingerprints import keyed_hash

SESSION = "upkeep"
"""The session of these proposals; nobody said them in a conversation."""

_OWNER = "upkeep"


def pair_refusal(salt: str, *parts: str) -> Refusal:
    """Return what is kept of a step that somebody refused, so that it is not made again; the order does not matter."""
    exact = keyed_hash(salt, _OWNER, *sorted(parts))
    return Refusal(exact=exact, hard="-", owner=_OWNER, lasting=False)


def proposal_id(newer: str, older: str) -> str:
    return "p" + hashlib.sha256(f"{newer}\0{older}".encode()).hexdigest()[:16]


async def propose_replacing(
    captures: CaptureStore, tenant: str, run_id: str, now: datetime, pairs: Sequence[tuple[Memory, Memory]]
) -> None:
    """Propose that the first of each pair supersedes the second; a run proposes once."""
    source = CaptureSource(tenant=tenant, session_id=SESSION)
    made = [_proposal(tenant, run_id, now, newer, older) for newer, older in pairs]
    changes = tuple(CapturedChange(change=one.change, stored=Stored.PROPOSED, id=one.id) for one in made)
    receipt = CaptureReceipt(id=run_id, at=now, source=source, mode=CaptureMode.REVIEW, changes=changes)
    begun = await captures.begin(receipt)
    if begun.state is CaptureState.WRITING:
        await captures.finish(begun.model_copy(update={"state": CaptureState.DONE}), made)


def _proposal(tenant: str, run_id: str, now: datetime, newer: Memory, older: Memory) -> Proposal:
    scope = newer.scope
    source = CaptureSource(
        tenant=tenant,
        session_id=SESSION,
        agent_id=scope.agent or "main",
        user=scope.user,
        project=scope.project,
        channel=newer.channel,
    )
    return Proposal(
        id=proposal_id(newer.id, older.id),
        at=now,
        expires_at=now + timedelta(days=PROPOSAL_DAYS),
        source=source,
        capture=run_id,
        change=Change(kind=ChangeKind.SUPERSEDE, memory=newer, target=older.id, known=True),
        replaces=older.content,
    )


async def replace(memories: MemoryService, tenant: str, change: Change, text: str | None) -> tuple[str, Stored]:
    """Let the stored memory of a change supersede its target, with another text if given; return its id.

    Raise `MemoryRejected` if either was changed, replaced or deleted since it was proposed.
    """
    newer, target = change.memory, change.target or ""
    found = {one.id: one for one in await memories.get(tenant, [newer.id, target])}
    present = found.get(newer.id)
    if len(found) != 2 or any(one.superseded_by for one in found.values()) or present is None:
        raise MemoryRejected("a memory of this proposal was replaced or deleted meanwhile; reject the proposal")
    if present.content != newer.content:
        raise MemoryRejected(f"the memory {newer.id} was changed meanwhile; reject the proposal")
    if text is not None and text != present.content:
        await memories.update(tenant, newer.id, {"content": text})
    await memories.relate(tenant, newer.id, SUPERSEDES, target)
    return newer.id, Stored.REPLACED


async def take_back(memories: MemoryService, tenant: str, change: Change) -> None:
    """Undo `replace`: both memories hold again. The text stays as whoever accepted it wrote it."""
    newer, target = change.memory.id, change.target or ""
    relation = Relation(kind=SUPERSEDES, target=target)

    def without(present: Memory | None) -> Memory:
        if present is None:
            raise NotFound(f"there is no memory {newer!r}")
        left = tuple(one for one in present.relations if one != relation)
        return present.model_copy(update={"relations": left})

    def reopened(present: Memory | None) -> Memory:
        if present is None:
            raise NotFound(f"there is no memory {target!r}")
        deleted_since = present.superseded_by is None and present.superseded_at == change.memory.created_at
        if present.superseded_by != newer and not deleted_since:
            return present
        return present.model_copy(update={"superseded_by": None, "superseded_at": None})

    for key, step in ((newer, without), (target, reopened)):
        with suppress(NotFound):  # deleted meanwhile
            await memories.change(tenant, {key: step})
