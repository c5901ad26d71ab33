"""Handlers that find memories: injection and recall."""

from collections.abc import Callable
from datetime import datetime

from hooks.contract import InjectionRequest, InjectionResult, Reason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.ledger import LedgerKey
from worker.domain.memory import Candidate, RecallQuery
from worker.domain.operation import AnyHandler, HandlerResult, Undelivered
from worker.domain.timings import Stages
from worker.domain.visibility import visible_to
from worker.domain.zones import seen_in, zone_name, zone_of
from worker.injection.service import InjectionService
from worker.query.time_ranges import HELP
from worker.recall.ranking import keyword_unit
from worker.recall.recall import Recall, RecallScope
from worker.recall.searches import with_time_range
from worker.settings.injection import InjectionConfig
from worker.text.rendering import attributed, shown_text

from .registry import INJECT, RECALL
from .requests import RecallRequest
from .results import FoundMemory, RecallResult

EXPLICIT = {"recall_min_score": -1.0}
"""Settings of a search: its sender asks for memories, so the check whether a message needs any does not apply."""

UNGATED = {"contextual_min_score": -1.0, "recall_min_score": -1.0, "keyword_min_score": 0.0}
"""Settings that turn every search result into a candidate."""


class InjectionOperations:
    def __init__(
        self,
        injection: InjectionService,
        recall: Recall,
        config_for: Callable[[str], InjectionConfig],
        clock: Callable[[], datetime],
        ledger_name: Callable[[LedgerKey], str],
        stages: Callable[[], Stages] = Stages,
    ) -> None:
        self._injection = injection
        self._recall = recall
        self._config_for = config_for
        self._clock = clock
        self._ledger_name = ledger_name
        self._stages = stages

    def handlers(self) -> tuple[AnyHandler, ...]:
        return INJECT.bind(self.inject), RECALL.bind(self.recall)

    async def inject(self, request: InjectionRequest, deadline: Deadline) -> HandlerResult[InjectionResult]:
        injection = await self._injection.inject(request, deadline)
        if injection.delivery is None:
            return injection.result
        commit = self._ledger_name(injection.delivery.key), injection.delivery.turn_key
        return Undelivered(injection.result, commit)

    async def recall(self, request: RecallRequest, deadline: Deadline) -> RecallResult:
        config = self._config_for(request.agent_id)
        limits = {"search_limit": max(config.search_limit, request.limit)}
        config = config.model_copy(update=limits | _thresholds(request))
        stages, scope = self._stages(), self._scope(request, config)
        query = _query(request, scope.now, config)
        recalled = await self._recall(query, scope, config, deadline, stages)
        return RecallResult(
            memories=[_found(candidate, request, config) for candidate in recalled.candidates[: request.limit]],
            degraded=recalled.degraded,
            stages=stages.as_dict(),
            size=recalled.size,
            keyword_unit=keyword_unit(recalled.size),
            time_zone=zone_name(scope.now.tzinfo),
        )

    def _scope(self, request: RecallRequest, config: InjectionConfig) -> RecallScope:
        zone = zone_of(request.tz or config.time_zone)
        now, replay = seen_in(request.now or self._clock(), zone), request.now is not None
        channels = config.channels_told(request.scope.channel, *request.channels, *_given(request.channel))
        visibility = visible_to(request.scope, request.agent_id, config.shared_users, now, replay, channels)
        return RecallScope(request.scope.tenant, visibility, now, request.scope.channel)


def _thresholds(request: RecallRequest) -> dict[str, float]:
    if request.ungated:
        return UNGATED
    return {} if request.only_relevant else EXPLICIT


def _query(request: RecallRequest, now: datetime, config: InjectionConfig) -> RecallQuery:
    """Return the search. Raise `OperationError` if its `time` is not understood."""
    query = RecallQuery(
        request.query,
        request.types,
        (*request.entities, *_given(request.entity)),
        request.since,
        request.until,
        (*request.channels, *_given(request.channel)),
        request.budget,
        also=request.also,
        history=request.history,
        time=request.time,
    )
    if query.time is not None and (query.since is not None or query.until is not None):
        raise OperationError(Reason.BAD_REQUEST, "time: cannot be combined with since or until")
    dated = with_time_range(query, now, config.languages)
    if dated.time is not None:
        raise OperationError(Reason.BAD_REQUEST, f"time: not understood; {HELP}")
    return dated


def _given(name: str | None) -> tuple[str, ...]:
    return () if name is None else (name,)


def _found(candidate: Candidate, request: RecallRequest, config: InjectionConfig) -> FoundMemory:
    memory = candidate.memory
    text = shown_text(memory.content, config.max_item_chars, mask=config.mask_secrets, query=request.query)
    return FoundMemory(
        id=memory.id,
        type=memory.type,
        text=attributed(text, memory.scope.user, request.scope.user),
        created_at=memory.created_at,
        occurred_at=memory.occurred_at,
        valid_until=memory.valid_until,
        superseded_at=memory.superseded_at,
        superseded_by=memory.superseded_by,
        cosine=candidate.cosine,
        keyword=candidate.keyword,
        relevance=candidate.relevance,
        score=candidate.score,
        legs=list(candidate.legs),
        pinned=memory.pinned,
    )
