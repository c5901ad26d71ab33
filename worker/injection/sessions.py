"""Update the ledger of a conversation on session events.

| event | effect on the ledger |
|---|---|
| session.started | cleared |
| session.resumed | unchanged; with `visible_blocks`, reduced to these |
| session.forked | copied from the parent, or else filled from `visible_blocks` |
| session.cleared | cleared |
| context.compacting | the current turn is remembered; the compaction may still be cancelled |
| context.compacted | entries are dropped according to `on_compaction`, unless this compaction was reported already |
| context.pruned | removed entries are dropped |
| agent.started | cleared for this agent |
| turn.failed | the entries of that turn are dropped |
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import structlog

from hooks.contract import SessionEvent, SessionEventResult, SessionEventType
from worker.domain.deadline import Deadline
from worker.domain.ledger import LedgerEntry, LedgerKey, LedgerView
from worker.ports.state import Ledger
from worker.settings.injection import InjectionConfig, OnCompaction

log = structlog.get_logger()

PENDING_TURNS = 3
"""Turns after which a compaction that never ended counts as cancelled."""

MAIN_AGENT = "main"
"""Agent id of a session without a ledger."""

Entries = dict[str, LedgerEntry]


@dataclass(frozen=True, slots=True)
class LedgerChange:
    """Number of memories that an event removed from and added to a ledger."""

    forgotten: int = 0
    adopted: int = 0

    def __add__(self, other: "LedgerChange") -> "LedgerChange":
        return LedgerChange(self.forgotten + other.forgotten, self.adopted + other.adopted)


class SessionService:
    """Apply events to ledgers. Raise `QueueError` if the ledger does not answer."""

    def __init__(self, ledger: Ledger, config_for: Callable[[str], InjectionConfig]) -> None:
        self._ledger = ledger
        self._config_for = config_for
        self._handlers = {
            SessionEventType.SESSION_STARTED: self._reset,
            SessionEventType.SESSION_RESUMED: self._resume,
            SessionEventType.SESSION_FORKED: self._fork,
            SessionEventType.SESSION_CLEARED: self._reset,
            SessionEventType.CONTEXT_COMPACTING: self._compacting,
            SessionEventType.CONTEXT_COMPACTED: self._compacted,
            SessionEventType.CONTEXT_PRUNED: self._prune,
            SessionEventType.AGENT_STARTED: self._reset,
            SessionEventType.TURN_FAILED: self._withdraw,
        }

    async def handle(self, event: SessionEvent, deadline: Deadline) -> SessionEventResult:
        """Apply an event to its agent's ledger, or to the ledgers of all agents of the session."""
        handler = self._handlers[event.type]
        change = LedgerChange()
        async with asyncio.timeout(deadline.remaining()):
            for agent_id in await self._agents(event):
                change += await handler(event, LedgerKey(event.tenant, event.session_id, agent_id))
        log.info("session_event", type=event.type, forgotten=change.forgotten, adopted=change.adopted)
        return SessionEventResult(done=True, forgotten=change.forgotten, adopted=change.adopted)

    async def show(self, tenant: str, session_id: str) -> dict[str, LedgerView]:
        """Return the ledger of each agent of a session."""
        agents = await self._ledger.agents(tenant, session_id)
        return {agent_id: await self._ledger.peek(LedgerKey(tenant, session_id, agent_id)) for agent_id in agents}

    async def _agents(self, event: SessionEvent) -> tuple[str, ...]:
        if event.agent_id is not None:
            return (event.agent_id,)
        parent = event.parent_session_id if event.type is SessionEventType.SESSION_FORKED else None
        return await self._ledger.agents(event.tenant, parent or event.session_id) or (MAIN_AGENT,)

    async def _reset(self, event: SessionEvent, key: LedgerKey) -> LedgerChange:
        return LedgerChange(forgotten=await self._ledger.reset(key))

    async def _resume(self, event: SessionEvent, key: LedgerKey) -> LedgerChange:
        if event.visible_blocks is None:
            return LedgerChange()
        adopted = await self._adopt_visible(event, key, await self._ledger.peek(key))
        return await self._prune(event, key) + adopted

    async def _fork(self, event: SessionEvent, key: LedgerKey) -> LedgerChange:
        parent = await self._parent(event, key)
        if parent is None:
            return await self._adopt_visible(event, key, await self._ledger.peek(key))
        shown = {name: entry for name, entry in parent.shown.items() if _is_visible(entry, event)}
        return LedgerChange(adopted=await self._ledger.adopt(key, parent.turn, shown))

    async def _parent(self, event: SessionEvent, key: LedgerKey) -> LedgerView | None:
        if event.parent_session_id is None:
            return None
        view = await self._ledger.peek(replace(key, session_id=event.parent_session_id))
        return view if view.turn else None

    async def _adopt_visible(self, event: SessionEvent, key: LedgerKey, view: LedgerView) -> LedgerChange:
        """Record the memories in the visible blocks as shown in the last turn."""
        found = await self._ledger.blocks(event.tenant, event.visible_blocks or ())
        if not found:
            return LedgerChange()
        entries = {name: replace(entry, turn=view.turn) for name, entry in found.items()}
        return LedgerChange(adopted=await self._ledger.adopt(key, view.turn, entries))

    async def _compacting(self, event: SessionEvent, key: LedgerKey) -> LedgerChange:
        await self._ledger.begin_compaction(key)
        return LedgerChange()

    async def _compacted(self, event: SessionEvent, key: LedgerKey) -> LedgerChange:
        policy = self._config_for(key.agent_id).on_compaction
        view = await self._ledger.peek(key)
        if reported_again(view):
            return LedgerChange()
        return LedgerChange(forgotten=await self._ledger.drop(key, lost_in_compaction(view, event, policy)))

    async def _prune(self, event: SessionEvent, key: LedgerKey) -> LedgerChange:
        view = await self._ledger.peek(key)
        return LedgerChange(forgotten=await self._ledger.drop(key, removed(view.shown, event, view.turn)))

    async def _withdraw(self, event: SessionEvent, key: LedgerKey) -> LedgerChange:
        return LedgerChange(forgotten=await self._ledger.withdraw(key, event.turn_id or ""))


def reported_again(view: LedgerView) -> bool:
    """Return whether a compaction is one that has ended already. Pure.

    It is if the last one was announced, this one was not, and at most one turn began since.
    """
    return view.pending is None and view.compacted is not None and view.turn - view.compacted <= 1


def lost_in_compaction(view: LedgerView, event: SessionEvent, policy: OnCompaction) -> Entries:
    """Return the entries that a compaction removed from the context. Pure.

    If the event does not say what is left, these are all entries up to the turn when the compaction began; lasting
    entries are in the system prompt and stay.
    """
    if policy is OnCompaction.KEEP:
        return {}
    if policy is OnCompaction.RESET:
        return dict(view.shown)
    if not (event.visible_blocks is None and event.removed_blocks is None and event.kept_turns is None):
        return removed(view.shown, event, view.turn)
    unknown = view.pending is None or view.turn - view.pending > PENDING_TURNS
    began = math.inf if unknown or view.pending is None else view.pending
    return {name: entry for name, entry in view.shown.items() if not entry.lasting and entry.turn <= began}


def removed(shown: Mapping[str, LedgerEntry], event: SessionEvent, turn: int) -> Entries:
    """Return the entries that are no longer in the context according to the event. Pure."""
    return {
        name: entry
        for name, entry in shown.items()
        if not _is_visible(entry, event)
        or entry.block_id in (event.removed_blocks or ())
        or (event.kept_turns is not None and not entry.lasting and entry.turn <= turn - event.kept_turns)
    }


def _is_visible(entry: LedgerEntry, event: SessionEvent) -> bool:
    return event.visible_blocks is None or entry.block_id in event.visible_blocks


def shown_in(views: Mapping[str, LedgerView]) -> list[dict[str, Any]]:
    """Return what each agent has been shown as JSON, latest first, without vectors."""
    return [
        {
            "agent_id": agent_id,
            "turn": view.turn,
            "compaction_pending": view.pending is not None,
            "shown": [
                {
                    "id": name,
                    "version": entry.version,
                    "turn": entry.turn,
                    "block_id": entry.block_id,
                    "lasting": entry.lasting,
                    "text": entry.text,
                }
                for name, entry in sorted(view.shown.items(), key=lambda pair: (-pair[1].turn, pair[0]))
            ],
        }
        for agent_id, view in views.items()
    ]
