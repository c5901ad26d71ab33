"""Handlers for receipts: list, show, replay and label them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from worker.domain.deadline import Deadline
from worker.domain.operation import AnyHandler
from worker.domain.receipt import Receipt
from worker.domain.receipt_summary import SummaryPage
from worker.ports.state import ReceiptStore
from worker.ports.store import StoreEngine
from worker.receipts.absence import MemoryExplanation
from worker.receipts.asking import MemoryQuestions
from worker.receipts.case_models import LabelledCase
from worker.receipts.cases import add_to_file, case_file, case_of
from worker.receipts.deleted_texts import read_shown, without_deleted
from worker.receipts.replay import Replayer
from worker.receipts.replay_models import Replay
from worker.receipts.search import brief, find_receipts, find_summaries
from worker.settings.injection import InjectionConfig

from .registry import EXPLAIN_MEMORY, KEEP_CASE, LABEL, RECEIPT, RECEIPT_PAGE, RECEIPTS, REPLAY
from .requests import (
    ExplainMemoryRequest,
    IdRequest,
    LabelRequest,
    ReceiptPageRequest,
    ReceiptsRequest,
    ReplayReceiptRequest,
)
from .results import KeptCase, ReceiptList


class ReceiptOperations:
    def __init__(
        self,
        receipts: ReceiptStore,
        replayer: Replayer,
        engine: StoreEngine,
        config_for: Callable[[str], InjectionConfig],
        questions: MemoryQuestions,
        cases: Path,
    ) -> None:
        self._receipts = receipts
        self._replayer = replayer
        self._engine = engine
        self._config_for = config_for
        self._questions = questions
        self._cases = cases

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (
            RECEIPT.bind(self.receipt),
            RECEIPTS.bind(self.receipts),
            RECEIPT_PAGE.bind(self.page),
            REPLAY.bind(self.replay),
            LABEL.bind(self.label),
            KEEP_CASE.bind(self.keep_case),
            EXPLAIN_MEMORY.bind(self.explain_memory),
        )

    async def receipt(self, request: IdRequest, deadline: Deadline) -> Receipt:
        return await read_shown(self._receipts, self._engine, request.tenant, request.id)

    async def receipts(self, request: ReceiptsRequest, deadline: Deadline) -> ReceiptList:
        found = await find_receipts(self._receipts, request.tenant, request.where, request.limit)
        if request.brief:
            return ReceiptList.model_construct(receipts=[_in_brief(receipt, request) for receipt in found])
        shown = await without_deleted(found, request.tenant, self._engine)
        return ReceiptList.model_construct(receipts=[receipt.model_dump(mode="json") for receipt in shown])

    async def page(self, request: ReceiptPageRequest, deadline: Deadline) -> SummaryPage:
        return await find_summaries(self._receipts, request.tenant, request.where, request.limit, request.cursor)

    async def replay(self, request: ReplayReceiptRequest, deadline: Deadline) -> Replay:
        return await self._replayer.replay(request.tenant, request.id, request.changes, deadline)

    async def label(self, request: LabelRequest, deadline: Deadline) -> LabelledCase:
        receipt = await read_shown(self._receipts, self._engine, request.tenant, request.id)
        memories = await self._engine.tenant(request.tenant).get(
            [*(one.id for one in receipt.considered), *request.labels.missing]
        )
        shared = self._config_for(receipt.request.agent_id).shared_users
        return case_of(receipt, memories, request.labels, shared)

    async def keep_case(self, request: LabelRequest, deadline: Deadline) -> KeptCase:
        """Add a labelled case to the tenant's file of cases in the data folder."""
        case = await self.label(request, deadline)
        file = case_file(self._cases, request.tenant)
        await asyncio.to_thread(add_to_file, file, case)
        counts = {kind: len(case.task[kind]) for kind in ("essential", "useful", "forbidden")}
        return KeptCase(id=case.task["id"], file=str(file), **counts)

    async def explain_memory(self, request: ExplainMemoryRequest, deadline: Deadline) -> MemoryExplanation:
        return await self._questions.explain(request.tenant, request.id, request.memory_id, deadline)


def _in_brief(receipt: Receipt, request: ReceiptsRequest) -> dict[str, Any]:
    return {**brief(receipt), **({"message": receipt.request.message} if request.messages else {})}
