"""The use case: one request in, one answer out. The only place that decides model, fallback or nothing."""

import asyncio
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from hooks.contract import InjectionRequest, InjectionResult, ItemSource, Mode, Outcome, Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import ModelError, QueueError, StoreError
from worker.domain.ledger import LedgerEntry, LedgerKey, LedgerView, turn_key_of
from worker.domain.memory import (
    Candidate,
    EmbedderProfile,
    Recalled,
    RecallQuery,
    RecallTool,
    Selection,
    SelectionTask,
    visible_to,
)
from worker.domain.timings import Stages
from worker.ports.models import Selector
from worker.ports.state import Ledger, ReceiptStore
from worker.query.warm_up import effective_mode, focus, skip_reason
from worker.recall.ranking import within_pool
from worker.recall.recall import Recall, RecallScope
from worker.recall.searches import first_query
from worker.relevance.selector import with_probabilities, worth_asking
from worker.settings.injection import InjectionConfig

from .background import BackgroundTasks
from .conclusion import conclude_empty, conclude_selection, result_of, shown_by
from .duplicates import deduplicate, still_shown
from .receipt import receipt_of
from .search_only import is_unsure
from .strategies import SelectionPlan, Strategies
from .turn import CandidateOutcomes, Conclusion, Turn

log = structlog.get_logger()

MODEL_RESERVE = 0.1
"""Seconds kept back from the model, for rendering and for the ledger."""

MODEL_MINIMUM = 0.4
"""Seconds that must be left for the model to be asked at all."""

MODEL_GRACE = 0.03
"""Seconds that the model's own limit is ahead of the one around it: a call that ends itself is counted as a failure
of the model, one that is cut off from outside is not."""

RECEIPT_AFTER = 0.005
"""Seconds after the answer that its receipt is made, which takes milliseconds: the answer is on its way by then."""

LEDGER_LIMIT = 0.25
"""Seconds the ledger may take; a request goes on without it."""

Shown = dict[str, LedgerEntry]


@dataclass(frozen=True, slots=True)
class DeliveryCommit:
    """What the caller commits once the block has really been delivered."""

    key: LedgerKey
    turn_key: str


@dataclass(frozen=True, slots=True)
class Injection:
    """An answer; `delivery` is there when it holds a block that the ledger is to count."""

    result: InjectionResult
    delivery: DeliveryCommit | None = None


@dataclass(frozen=True, slots=True)
class InjectionParts:
    """What the service is built from.

    `profile` is that of the embedder, missing where its vectors are not used. `answered` is told every new result.
    `logs` says that each has a line in the log, which names its receipt: a replay's is not kept.
    """

    recall: Recall
    strategies: Strategies
    ledger: Ledger
    receipts: ReceiptStore
    config_for: Callable[[str], InjectionConfig]
    clock: Callable[[], datetime]
    profile: EmbedderProfile | None = None
    answered: Callable[[InjectionResult], None] | None = None
    logs: bool = True


class InjectionService:
    """Answers requests within their deadline; whatever fails becomes a named outcome."""

    def __init__(self, parts: InjectionParts) -> None:
        self._parts = parts
        self._background = BackgroundTasks()

    async def inject(self, request: InjectionRequest, deadline: Deadline) -> Injection:
        """The answer to `request`, well before `deadline`."""
        turn = self._begin(request, deadline)
        skipped = skip_reason(request, turn.config)
        if skipped is not None:
            return self._finish(turn, Conclusion(Outcome.SKIPPED, skipped))
        view, recalled = await asyncio.gather(self._view(turn), self._first_recall(turn))
        if view.replay is not None:
            return Injection(InjectionResult.model_validate_json(view.replay), _delivery(request))
        if recalled is None:
            return self._finish(turn, Conclusion(Outcome.ERROR, Reason.STORE_UNAVAILABLE, degraded=True))
        conclusion = await self._conclude(turn, view, recalled)
        return await self._deliver(turn, view, conclusion)

    async def drain(self) -> None:
        """Wait until every receipt is written."""
        await self._background.drain()

    def _begin(self, request: InjectionRequest, deadline: Deadline) -> Turn:
        config = self._parts.config_for(request.agent_id)
        now = request.now or self._parts.clock()
        wanted = first_query(request, focus(request, config), config)
        return Turn(
            request=request,
            config=config,
            query=wanted.query,
            now=now,
            deadline=deadline.within(config.deadline_ms / 1000),
            stages=Stages(),
            receipt_id=uuid.uuid4().hex,
            wanted=wanted,
        )

    async def _first_recall(self, turn: Turn) -> Recalled | None:
        """What the request itself recalls; `None` when the store is down."""
        try:
            return await self._recall(turn, turn.wanted)
        except StoreError as error:
            log.warning("store_unavailable", error=str(error))
            return None

    async def _recall(self, turn: Turn, query: RecallQuery) -> Recalled:
        request, config = turn.request, turn.config
        replayed = request.now is not None
        visibility = visible_to(request.scope, request.agent_id, config.shared_users, turn.now, replay=replayed)
        scope = RecallScope(request.scope.tenant, visibility, turn.now, request.scope.channel)
        return await self._parts.recall(query, scope, config, turn.deadline, turn.stages)

    async def _conclude(self, turn: Turn, view: LedgerView, recalled: Recalled) -> Conclusion:
        shown = still_shown(
            view,
            retention=turn.request.retention,
            visible_blocks=turn.request.visible_blocks,
            depth=turn.config.context_window_depth,
        )
        outcomes = CandidateOutcomes()
        fresh = self._without_shown(turn, recalled, shown, outcomes)
        plan = self._parts.strategies.plan(turn.config, effective_mode(turn.request, turn.config))
        if not fresh.candidates:
            return conclude_empty(outcomes, recalled.degraded)
        pinned, contextual = _by_source(fresh)
        selection, failure = await self._choose(turn, plan, contextual, shown, outcomes)
        selection = replace(selection, chosen=(*pinned, *selection.chosen))
        return conclude_selection(turn, self._without_repeats(turn, selection), outcomes, failure or recalled.degraded)

    async def _choose(
        self, turn: Turn, plan: SelectionPlan, recalled: Recalled, shown: Shown, outcomes: CandidateOutcomes
    ) -> tuple[Selection, Reason | None]:
        """The choice, and why the model did not make it where it should have."""
        task = _task_of(turn)
        tool = self._tool(turn, shown, outcomes)
        settled = await plan.settles.select(task, recalled, tool, turn.config, turn.deadline)
        if plan.note:
            settled = replace(settled, notes=(*settled.notes, plan.note))
        if plan.improves is None:
            return settled, None
        worth, beside = worth_asking(recalled, settled)
        if not _asks_model(turn, worth, settled):
            return settled, None
        outcomes.drop(beside)
        with turn.stages("triage"):
            selection, failure = await self._triage(plan.improves, turn, task, worth, tool, settled)
        return with_probabilities(selection, settled), failure

    async def _triage(
        self,
        triage: Selector,
        turn: Turn,
        task: SelectionTask,
        recalled: Recalled,
        tool: RecallTool,
        settled: Selection,
    ) -> tuple[Selection, Reason | None]:
        """The model's choice where it comes in time, else `settled` and the reason."""
        limit = turn.deadline.keeping(MODEL_RESERVE)
        if limit.remaining() < MODEL_MINIMUM:
            return settled, Reason.MODEL_NO_TIME
        try:
            async with asyncio.timeout(limit.remaining() + MODEL_GRACE):
                selection = await triage.select(task, recalled, tool, turn.config, limit)
            return selection, Reason.MODEL_TIMEOUT if selection.partial else None
        except TimeoutError:
            return settled, Reason.MODEL_TIMEOUT
        except ModelError as error:
            return replace(settled, attempts=error.attempts), error.reason
        except StoreError:
            return settled, Reason.STORE_UNAVAILABLE

    def _tool(self, turn: Turn, shown: Shown, outcomes: CandidateOutcomes) -> RecallTool:
        """Recall for the model: the request's own scope, and nothing that the session has been shown."""

        async def recall(query: RecallQuery) -> Recalled:
            wanted = replace(query, history=query.history and turn.config.recall_history)
            return self._without_shown(turn, await self._recall(turn, wanted), shown, outcomes)

        return recall

    def _without_shown(self, turn: Turn, recalled: Recalled, shown: Shown, outcomes: CandidateOutcomes) -> Recalled:
        """What was recalled, without what is in the context already and what says the same twice."""
        with turn.stages("dedup"):
            fresh, repeated = deduplicate(recalled.candidates, shown, self._threshold(turn))
        kept, over = within_pool(fresh, turn.config.pool_limit)
        outcomes.drop([*recalled.dropped, *repeated, *over])
        return replace(recalled, candidates=kept)

    def _without_repeats(self, turn: Turn, selection: Selection) -> Selection:
        """The choice, where several searches may each have brought a wording of the same."""
        chosen, repeated = deduplicate(selection.chosen, {}, self._threshold(turn))
        return replace(selection, chosen=chosen, dropped=(*selection.dropped, *repeated))

    def _threshold(self, turn: Turn) -> float | None:
        """The cosine from which two memories say the same; `None` where vectors are not used."""
        profile, configured = self._parts.profile, turn.config.semantic_threshold
        return profile.duplicate if configured is None and profile is not None else configured

    async def _view(self, turn: Turn) -> LedgerView:
        """What the session has been shown; a dry run looks and begins no turn."""
        key, turn_key = _ledger_key(turn.request), _turn_key(turn.request)
        ledger, depth = self._parts.ledger, turn.config.context_window_depth
        try:
            async with asyncio.timeout(turn.deadline.within(LEDGER_LIMIT).remaining()):
                if turn.request.dry_run:
                    view = await ledger.peek(key)
                    return replace(view, turn=view.turn + 1)
                return await ledger.view(key, turn_key, depth=depth)
        except (QueueError, TimeoutError):
            log.warning("ledger_unavailable")
            return LedgerView()

    async def _deliver(self, turn: Turn, view: LedgerView, conclusion: Conclusion) -> Injection:
        """Offer a block to the ledger; it counts as shown once the hook has committed it."""
        result = result_of(turn, conclusion)
        if result.block_id is None or turn.request.dry_run:
            return self._recorded(turn, conclusion, result)
        shown = shown_by(turn, conclusion, view.turn, result.block_id)
        key, turn_key = _ledger_key(turn.request), _turn_key(turn.request)
        try:
            async with asyncio.timeout(turn.deadline.within(LEDGER_LIMIT).remaining()):
                await self._parts.ledger.offer(key, turn_key, result.model_dump_json(), shown)
        except (QueueError, TimeoutError):
            log.warning("ledger_unavailable")
        return self._recorded(turn, conclusion, result, _delivery(turn.request))

    def _finish(self, turn: Turn, conclusion: Conclusion) -> Injection:
        return self._recorded(turn, conclusion, result_of(turn, conclusion))

    def _recorded(
        self, turn: Turn, conclusion: Conclusion, result: InjectionResult, delivery: DeliveryCommit | None = None
    ) -> Injection:
        self._background.spawn("receipt", self._record(turn, conclusion, result))
        if self._parts.answered is not None:
            self._parts.answered(result)
        if self._parts.logs:
            _log_answer(result)
        return Injection(result, delivery)

    async def _record(self, turn: Turn, conclusion: Conclusion, result: InjectionResult) -> None:
        await asyncio.sleep(RECEIPT_AFTER)
        await self._parts.receipts.write(receipt_of(turn, conclusion, result))


def _log_answer(result: InjectionResult) -> None:
    log.info(
        "answered",
        outcome=result.outcome,
        reason=result.reason,
        engine=result.engine,
        items=len(result.items),
        elapsed_ms=result.elapsed_ms,
        receipt=result.receipt_id,
    )


def _by_source(recalled: Recalled) -> tuple[tuple[Candidate, ...], Recalled]:
    """What is pinned, which nobody has to choose, and what was found for this message."""
    pinned = tuple(one for one in recalled.candidates if one.source is ItemSource.PINNED)
    found = tuple(one for one in recalled.candidates if one.source is not ItemSource.PINNED)
    return pinned, replace(recalled, candidates=found)


def _asks_model(turn: Turn, recalled: Recalled, settled: Selection) -> bool:
    """Return whether the model is to choose: never about nothing."""
    if not recalled.candidates:
        return False
    mode = effective_mode(turn.request, turn.config)
    return mode is Mode.ALWAYS or (mode is Mode.ESCALATE and is_unsure(settled))


def _task_of(turn: Turn) -> SelectionTask:
    """What selectors are told of the request."""
    request = turn.request
    return SelectionTask(
        message=request.message,
        task_description=request.task_description,
        recent_messages=request.recent_messages,
        query=turn.query,
        now=turn.now,
        user=request.scope.user,
        channel=request.scope.channel,
        source=request.source,
    )


def _ledger_key(request: InjectionRequest) -> LedgerKey:
    return LedgerKey(request.scope.tenant, request.session_id, request.agent_id)


def _turn_key(request: InjectionRequest) -> str:
    return turn_key_of(request.turn_id, request.message)


def _delivery(request: InjectionRequest) -> DeliveryCommit:
    return DeliveryCommit(_ledger_key(request), _turn_key(request))
