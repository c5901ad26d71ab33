"""The main use case: one request in, one answer out."""

import asyncio
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import structlog

from hooks.contract import Engine, InjectionRequest, InjectionResult, ItemSource, Outcome, Reason, Retention
from worker.domain.deadline import Deadline
from worker.domain.errors import QueueError, StoreError
from worker.domain.fair_line import Caller
from worker.domain.ledger import UNSEEN, LedgerEntry, LedgerKey, LedgerView
from worker.domain.memory import Candidate, Dropped, EmbedderProfile, Recalled, RecallQuery, Selection
from worker.domain.receipt import Receipt
from worker.domain.timings import Stages
from worker.domain.visibility import visible_to
from worker.ports.state import Ledger, ReceiptStore
from worker.query.skipping import effective_mode, skip_reason
from worker.recall.ranking import within_pool
from worker.recall.recall import Recall, RecallScope
from worker.settings.injection import InjectionConfig

from .answer_log import log_answer
from .background import BackgroundTasks
from .briefing import LEADING, opens_session, with_briefing
from .capacity import Capacity, Place
from .choice import choose
from .conclusion import conclude_empty, conclude_selection, result_of, shown_by, without_taken
from .duplicates import deduplicate, still_shown
from .receipt import receipt_of
from .strategies import Strategies
from .turn import Conclusion, Turn, limited, read_turn, tells_more, text_of

log = structlog.get_logger()

RECEIPT_AFTER = 0.005
"""Seconds between the answer and its receipt, which takes milliseconds to make: the answer goes out first."""

LEDGER_LIMIT = 0.25
"""Seconds the ledger may take; a request goes on without it."""

BRIEFING_LIMIT = 0.25
"""Seconds the briefing may take; a request goes on without it."""

MOST_OFFERS = 5
"""Attempts to offer a block of which parallel turns take memories; the last one may be left with memories they took."""

Shown = dict[str, LedgerEntry]

NoteUse = Callable[[Receipt, Sequence[str], InjectionConfig], None]
"""Is told at once which memories were chosen by a chat model, or used by an answer, for the request of a receipt."""

OPENINGS = frozenset({Reason.EMPTY_MESSAGE, Reason.ATTACHMENT_ONLY, Reason.EMOJI_ONLY, Reason.GREETING})
"""Messages that are not searched with, but still bring pinned memories if they open a session."""


@dataclass(frozen=True, slots=True)
class DeliveryCommit:
    """What the caller commits once the block has really been delivered."""

    key: LedgerKey
    turn_key: str


@dataclass(frozen=True, slots=True)
class Injection:
    """An answer; `delivery` is set if it holds a block for the ledger to count."""

    result: InjectionResult
    delivery: DeliveryCommit | None = None


@dataclass(frozen=True, slots=True)
class InjectionParts:
    """What the service needs.

    `profile` is the embedder's, `None` if vectors are not used. `answered` is called with every new result, `chosen`
    with what a chat model chose. `logs` writes a log line per answer; replays turn it off. `stages` makes what measures
    the stages of a request.
    """

    recall: Recall
    strategies: Strategies
    ledger: Ledger
    receipts: ReceiptStore
    config_for: Callable[[str], InjectionConfig]
    clock: Callable[[], datetime]
    profile: EmbedderProfile | None = None
    answered: Callable[[InjectionResult], None] | None = None
    chosen: NoteUse | None = None
    logs: bool = True
    capacity: Capacity = field(default_factory=Capacity)
    stages: Callable[[], Stages] = Stages


class InjectionService:
    """Answer requests within their deadline; every failure becomes a named outcome."""

    def __init__(self, parts: InjectionParts) -> None:
        self._parts = parts
        self._background = BackgroundTasks()

    async def inject(self, request: InjectionRequest, deadline: Deadline) -> Injection:
        """Return the answer to `request` before `deadline`.

        Raise `OperationError` if so many requests wait that this one would not be answered in its time.
        """
        config = limited(self._parts.config_for(request.agent_id), request)
        now = request.now or self._parts.clock()
        turn = read_turn(request, config, now, deadline, uuid.uuid4().hex, self._parts.stages())
        skipped = skip_reason(request, config)
        if skipped is not None:
            return await self._skip(turn, skipped)
        async with self._place(turn) as place:
            return await self._answer(turn, place)

    def _place(self, turn: Turn) -> AbstractAsyncContextManager[Place]:
        caller = Caller(turn.request.scope.tenant, turn.request.agent_id)
        return self._parts.capacity.turn(caller, turn.deadline)

    async def _answer(self, turn: Turn, place: Place) -> Injection:
        view, recalled = await asyncio.gather(self._view(turn), self._first_recall(turn))
        if view.replay is not None:
            repeated = InjectionResult.model_validate_json(view.replay)
            if await self._still_true(turn, repeated):
                return Injection(repeated, _delivery(turn))
        if recalled is None:
            return self._finish(turn, Conclusion(Outcome.ERROR, Reason.STORE_UNAVAILABLE, degraded=True))
        recalled = await self._briefed(turn, view, recalled)
        conclusion = await self._conclude(turn, _still_shown(turn, view), recalled, place)
        return await self._deliver(turn, view, conclusion)

    async def drain(self) -> None:
        """Wait until every receipt is written."""
        await self._background.drain()

    async def _skip(self, turn: Turn, reason: Reason) -> Injection:
        """Answer without a search; the first request of a session still gets its briefing and pinned memories."""
        conclusion = Conclusion(Outcome.SKIPPED, reason)
        if reason not in OPENINGS:
            return self._finish(turn, conclusion)
        async with self._place(turn) as place:
            view = await self._view(turn)
            turn = replace(turn, query=RecallQuery("", pinned=True))
            recalled = await self._first_recall(turn) if view.turn == 1 and not view.shown else None
            recalled = recalled and await self._briefed(turn, view, recalled)
            if recalled is None or not recalled.candidates:
                return self._finish(turn, conclusion)
            concluded = await self._conclude(turn, _still_shown(turn, view), recalled, place)
            return await self._deliver(turn, view, concluded)

    async def _briefed(self, turn: Turn, view: LedgerView, recalled: Recalled) -> Recalled:
        """Put the briefing in front, if the turn opens a session; without it if the store is slow."""
        if not opens_session(turn, view):
            return recalled
        try:
            with turn.stages("briefing"):
                limit = turn.deadline.within(BRIEFING_LIMIT)
                leading = await self._parts.recall.leading(LEADING, _scope_of(turn), turn.config, limit)
        except StoreError as error:
            log.warning("briefing_left_out", error=str(error))
            return recalled
        return with_briefing(recalled, leading, turn)

    async def _first_recall(self, turn: Turn) -> Recalled | None:
        """Return what the request itself recalls, `None` if the store is down."""
        try:
            return await self._recall(turn, turn.query)
        except StoreError as error:
            log.warning("store_unavailable", error=str(error))
            return None

    async def _still_true(self, turn: Turn, repeated: InjectionResult) -> bool:
        """Return whether every memory of an earlier answer still exists, is visible and reads the same."""
        ids = [item.id for item in repeated.items]
        try:
            memories = await self._parts.recall.present(ids, _scope_of(turn), turn.deadline)
        except StoreError as error:
            log.warning("store_unavailable", error=str(error))
            return False
        texts = {memory.id: text_of(memory, turn) for memory in memories}
        return all(texts.get(item.id) == item.text for item in repeated.items)

    async def _recall(self, turn: Turn, query: RecallQuery) -> Recalled:
        return await self._parts.recall(query, _scope_of(turn), turn.config, turn.deadline, turn.stages)

    async def _conclude(self, turn: Turn, shown: Shown, recalled: Recalled, place: Place) -> Conclusion:
        fresh = self._fresh(turn, recalled, shown)
        if not fresh.candidates:
            return conclude_empty(fresh.dropped, recalled.degraded)
        pinned, contextual = _by_source(fresh)
        found: list[Dropped] = [*fresh.dropped]

        async def search_again(query: RecallQuery) -> Recalled:
            """Search for the model: in the request's own scope, without what the session has been shown."""
            wanted = replace(query, history=query.history and turn.config.recall_history)
            more = self._fresh(turn, await self._recall(turn, wanted), shown)
            found.extend(more.dropped)
            return more

        plan = self._parts.strategies.plan(turn.config, effective_mode(turn.request, turn.config))
        choice = await choose(turn, plan, contextual, search_again, partial(self._parts.capacity.paused, place))
        selection = replace(choice.selection, chosen=(*pinned, *choice.selection.chosen))
        selection = self._without_repeats(turn.config, selection)
        return conclude_selection(turn, selection, (*found, *choice.dropped), choice.failure or recalled.degraded)

    def _fresh(self, turn: Turn, recalled: Recalled, shown: Shown) -> Recalled:
        """Drop what is in the context already and what says the same twice; cut to the pool."""
        with turn.stages("dedup"):
            threshold, more = self._duplicate_threshold(turn.config), partial(tells_more, turn=turn)
            fresh, repeated = deduplicate(recalled.candidates, shown, threshold, tells_more=more)
        kept, over = within_pool(fresh, turn.config.pool_limit)
        return replace(recalled, candidates=kept, dropped=(*recalled.dropped, *repeated, *over))

    def _without_repeats(self, config: InjectionConfig, selection: Selection) -> Selection:
        """Drop duplicates from the choice: several searches may each have found a wording of the same."""
        chosen, repeated = deduplicate(selection.chosen, {}, self._duplicate_threshold(config))
        return replace(selection, chosen=chosen, dropped=(*selection.dropped, *repeated))

    def _duplicate_threshold(self, config: InjectionConfig) -> float | None:
        """Return the cosine from which two memories say the same, `None` if vectors are not used."""
        profile, configured = self._parts.profile, config.semantic_threshold
        return profile.duplicate if configured is None and profile is not None else configured

    async def _view(self, turn: Turn) -> LedgerView:
        """Return what the session has been shown; a dry run looks without beginning a turn.

        So does a request while Redis takes no changes, such as when it is full.
        """
        ledger, depth = self._parts.ledger, turn.config.context_window_depth
        try:
            async with asyncio.timeout(turn.deadline.within(LEDGER_LIMIT).remaining()):
                if not turn.request.dry_run:
                    with suppress(QueueError):
                        return await ledger.view(turn.ledger_key, turn.turn_key, depth=depth)
                view = await ledger.peek(turn.ledger_key)
                return replace(view, turn=view.turn + 1)
        except (QueueError, TimeoutError):
            log.warning("ledger_unavailable")
            return LedgerView(turn=0)

    async def _deliver(self, turn: Turn, view: LedgerView, conclusion: Conclusion) -> Injection:
        """Offer the block to the ledger; it counts as shown once the hook commits it.

        What a parallel turn has offered meanwhile is left out. If the ledger hangs, and could not be read before,
        nothing is delivered: once it answers again, the block could repeat what it has.
        """
        seen = view.offers if view.turn else UNSEEN
        for _ in range(MOST_OFFERS):
            result = result_of(turn, conclusion)
            if result.block_id is None or turn.request.dry_run:
                return self._recorded(turn, conclusion, result)
            taken = await self._offer(turn, view, conclusion, result, seen)
            if taken is None and _may_repeat(turn, view):
                return self._finish(turn, Conclusion(Outcome.ERROR, Reason.QUEUE_UNAVAILABLE, degraded=True))
            if not taken:
                return self._recorded(turn, conclusion, result, _delivery(turn))
            conclusion = without_taken(turn, conclusion, taken)
        return self._recorded(turn, conclusion, result_of(turn, conclusion))

    async def _offer(
        self, turn: Turn, view: LedgerView, conclusion: Conclusion, result: InjectionResult, seen: int | None
    ) -> frozenset[str] | None:
        """Offer a result, and return the memories that parallel turns have taken, `None` if the ledger hangs."""
        before = replace(view, shown=dict(_still_shown(turn, view)))
        shown = shown_by(turn, conclusion, before, result.block_id or "")
        offer = self._parts.ledger.offer
        try:
            async with asyncio.timeout(turn.deadline.within(LEDGER_LIMIT).remaining()):
                return await offer(turn.ledger_key, turn.turn_key, result.model_dump_json(), shown, seen=seen)
        except (QueueError, TimeoutError) as error:
            log.warning("ledger_unavailable")
            return None if isinstance(error, TimeoutError) else frozenset()

    def _finish(self, turn: Turn, conclusion: Conclusion) -> Injection:
        return self._recorded(turn, conclusion, result_of(turn, conclusion))

    def _recorded(
        self, turn: Turn, conclusion: Conclusion, result: InjectionResult, delivery: DeliveryCommit | None = None
    ) -> Injection:
        self._background.spawn("receipt", self._record(turn, conclusion, result))
        if self._parts.answered is not None:
            self._parts.answered(result)
        if self._parts.logs:
            log_answer(conclusion, result)
        return Injection(result, delivery)

    async def _record(self, turn: Turn, conclusion: Conclusion, result: InjectionResult) -> None:
        await asyncio.sleep(RECEIPT_AFTER)
        receipt = receipt_of(turn, conclusion, result)
        await self._parts.receipts.write(receipt)
        by_model = receipt.engine is Engine.LLM and not receipt.degraded
        if self._parts.chosen is not None and by_model:
            self._parts.chosen(receipt, receipt.chosen, turn.config)


def _scope_of(turn: Turn) -> RecallScope:
    """Return what the request may search."""
    request, config = turn.request, turn.config
    replayed = request.now is not None
    channels = config.channels_told(request.scope.channel)
    visibility = visible_to(request.scope, request.agent_id, config.shared_users, turn.now, replayed, channels)
    visibility = replace(visibility, importance=request.min_importance)
    return RecallScope(request.scope.tenant, visibility, turn.now, request.scope.channel)


def _still_shown(turn: Turn, view: LedgerView) -> Shown:
    visible, depth = turn.request.visible_blocks, turn.config.context_window_depth
    return still_shown(view, retention=turn.retention, visible_blocks=visible, depth=depth)


def _may_repeat(turn: Turn, view: LedgerView) -> bool:
    """Return whether nothing says what the session has been shown, and the request minds repeats."""
    return not view.turn and turn.retention is not Retention.EPHEMERAL


def _by_source(recalled: Recalled) -> tuple[tuple[Candidate, ...], Recalled]:
    """Split off what is pinned, which is always included, from what was found for this message."""
    pinned = tuple(one for one in recalled.candidates if one.source is ItemSource.PINNED)
    found = tuple(one for one in recalled.candidates if one.source is not ItemSource.PINNED)
    return pinned, replace(recalled, candidates=found)


def _delivery(turn: Turn) -> DeliveryCommit:
    return DeliveryCommit(turn.ledger_key, turn.turn_key)
