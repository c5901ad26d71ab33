"""What the service can be asked for: one operation per job, JSON objects in and out. No decisions here.

The same table serves the queue's worker and the command line where that opens the store itself.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from pydantic import Field

from hooks.contract import InjectionRequest, Key, Scope, Text, UtcTime
from hooks.moments import LastMoment
from hooks.wire import INJECT
from worker.domain.deadline import Deadline
from worker.domain.kinds import Budget
from worker.domain.ledger import LedgerKey
from worker.domain.memory import DomainModel, Memory, MemoryType, RecallQuery, visible_to
from worker.domain.operation import Operation, OperationAnswer
from worker.domain.timings import Stages
from worker.injection.service import InjectionService
from worker.injection.sessions import SessionService
from worker.ports.state import ReceiptStore
from worker.ports.store import StoreEngine
from worker.recall.ranking import keyword_unit
from worker.recall.recall import Recall, RecallScope
from worker.receipts.search import ReceiptFilter, brief, find_receipts
from worker.settings.injection import InjectionConfig
from worker.settings.live import LiveSettings
from worker.text.rendering import shown_text
from worker.triage.model_pool import ModelState

from .memories import MemoryOperations
from .payloads import TenantPayload
from .sessions import SessionOperations
from .settings import SettingsOperations

RECALL = "recall"
RECEIPT = "receipt"
RECEIPTS = "receipts"
HEALTH = "health"

BY_HAND = {"recall_min_score": -1.0}
"""Who searches by hand has a question: the floor holds, but not the gate, by which a message needs no memory at all."""

UNGATED = {"contextual_min_score": -1.0, "recall_min_score": -1.0, "keyword_min_score": 0.0}
"""Settings by which everything that is found is a candidate."""


class RecallPayload(DomainModel):
    """A search by hand: what it is to find, for whom, and how many at most; `ungated` asks for what no floor passes."""

    query: Text = Field(min_length=1)
    scope: Scope = Scope()
    agent_id: Key = "main"
    types: tuple[MemoryType, ...] = ()
    entities: tuple[Text, ...] = ()
    since: UtcTime | None = None
    until: LastMoment | None = None
    channels: tuple[Text, ...] = ()
    budget: Budget | None = None
    history: bool = False
    also: tuple[Text, ...] = ()
    ungated: bool = False
    now: UtcTime | None = None
    limit: int = Field(default=10, ge=1, le=100)


class ReceiptPayload(TenantPayload):
    id: Key


class ReceiptsPayload(TenantPayload):
    """Which receipts are wanted, the newest first; `brief` leaves out texts, settings and what was considered."""

    where: ReceiptFilter = ReceiptFilter()
    brief: bool = False
    limit: int = Field(default=20, ge=1, le=1000)


DATES = ("created_at", "occurred_at", "valid_until", "superseded_at", "superseded_by")


def _dates_of(memory: Memory) -> dict[str, Any]:
    """When a memory was noted and happened, until when it holds, and since when and by what it is out of date."""
    return memory.model_dump(mode="json", include=set(DATES))


class Operations:
    """Decode, call, encode."""

    def __init__(
        self,
        *,
        injection: InjectionService,
        recall: Recall,
        memories: MemoryOperations,
        engine: StoreEngine,
        receipts: ReceiptStore,
        config_for: Callable[[str], InjectionConfig],
        clock: Callable[[], datetime],
        ledger_name: Callable[[LedgerKey], str],
        sessions: SessionService,
        settings: LiveSettings,
        models: Callable[[], Sequence[ModelState]],
        about: dict[str, Any],
    ) -> None:
        self._injection = injection
        self._recall = recall
        self._memories = memories
        self._engine = engine
        self._receipts = receipts
        self._config_for = config_for
        self._clock = clock
        self._ledger_name = ledger_name
        self._sessions = sessions
        self._settings = settings
        self._models = models
        self._about = about

    def table(self) -> dict[str, Operation]:
        """Every operation by the name of its job."""
        return {
            INJECT: self.inject,
            RECALL: self.recall,
            RECEIPT: self.receipt,
            RECEIPTS: self.receipts,
            HEALTH: self.health,
            **self._memories.table(),
            **SettingsOperations(self._settings).table(),
            **SessionOperations(self._sessions).table(),
        }

    async def inject(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        injection = await self._injection.inject(InjectionRequest.model_validate(payload), deadline)
        delivery = injection.delivery
        commit = (self._ledger_name(delivery.key), delivery.turn_key) if delivery else None
        return OperationAnswer(injection.result.model_dump(mode="json"), commit)

    async def recall(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = RecallPayload.model_validate(payload)
        config = self._config_for(wanted.agent_id)
        config = config.model_copy(
            update={"search_limit": max(config.search_limit, wanted.limit), **(UNGATED if wanted.ungated else BY_HAND)}
        )
        now = wanted.now or self._clock()
        visibility = visible_to(wanted.scope, wanted.agent_id, config.shared_users, now, replay=wanted.now is not None)
        query = RecallQuery(
            wanted.query,
            wanted.types,
            wanted.entities,
            wanted.since,
            wanted.until,
            wanted.channels,
            wanted.budget,
            also=wanted.also,
            history=wanted.history,
        )
        scope = RecallScope(wanted.scope.tenant, visibility, now, wanted.scope.channel)
        stages = Stages()
        recalled = await self._recall(query, scope, config, deadline, stages)
        hits = [
            {
                "id": candidate.memory.id,
                "type": candidate.memory.type,
                "text": shown_text(candidate.memory.content, config.max_item_chars, mask=config.mask_secrets),
                **_dates_of(candidate.memory),
                "cosine": candidate.cosine,
                "keyword": candidate.keyword,
                "relevance": candidate.relevance,
                "score": candidate.score,
                "legs": candidate.legs,
            }
            for candidate in recalled.candidates[: wanted.limit]
        ]
        return OperationAnswer(
            {
                "memories": hits,
                "degraded": recalled.degraded,
                "stages": stages.as_dict(),
                "size": recalled.size,
                "keyword_unit": keyword_unit(recalled.size),
            }
        )

    async def receipt(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = ReceiptPayload.model_validate(payload)
        return OperationAnswer((await self._receipts.read(wanted.tenant, wanted.id)).model_dump(mode="json"))

    async def receipts(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = ReceiptsPayload.model_validate(payload)
        found = await find_receipts(self._receipts, wanted.tenant, wanted.where, wanted.limit)
        told = brief if wanted.brief else (lambda receipt: receipt.model_dump(mode="json"))
        return OperationAnswer({"receipts": [told(receipt) for receipt in found]})

    async def health(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        health = await self._engine.health()
        models = [asdict(state) for state in self._models()]
        about = {**self._about, "models": models, "settings": self._settings.status()}
        return OperationAnswer({"store": asdict(health), **about})
