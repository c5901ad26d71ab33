"""Handlers for receipts: list, show, replay and label them."""

from collections.abc import Callable
from typing import Any

from worker.domain.deadline import Deadline
from worker.domain.operation import AnyHandler
from worker.domain.receipt import Receipt
from worker.ports.state import ReceiptStore
from worker.ports.store import StoreEngine
from worker.receipts.case_models import LabelledCase
from worker.receipts.cases import case_of
from worker.receipts.deleted_texts import read_shown, without_deleted
from worker.receipts.replay import Replayer
from worker.receipts.replay_models import Replay
from worker.receipts.search import brief, find_receipts
from worker.settings.injection import InjectionConfig

from .registry import LABEL, RECEIPT, RECEIPTS, REPLAY
from .requests import IdRequest, LabelRequest, ReceiptsRequest, ReplayReceiptRequest
from .results import ReceiptList


class ReceiptOperations:
    def __init__(
        self,
        receipts: ReceiptStore,
        replayer: Replayer,
        engine: StoreEngine,
        config_for: Callable[[str], InjectionConfig],
    ) -> None:
        self._receipts = receipts
        self._replayer = replayer
        self._engine = engine
        self._config_for = config_for

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (
            RECEIPT.bind(self.receipt),
            RECEIPTS.bind(self.receipts),
            REPLAY.bind(self.replay),
            LABEL.bind(self.label),
        )

    async def receipt(self, request: IdRequest, deadline: Deadline) -> Receipt:
        return await read_shown(self._receipts, self._engine, request.tenant, request.id)

    async def receipts(self, request: ReceiptsRequest, deadline: Deadline) -> ReceiptList:
        found = await find_receipts(self._receipts, request.tenant, request.where, request.limit)
        if request.brief:
            return ReceiptList.model_construct(receipts=[_in_brief(receipt, request) for receipt in found])
        shown = await without_deleted(found, request.tenant, self._engine)
        return ReceiptList.model_construct(receipts=[receipt.model_dump(mode="json") for receipt in shown])

    async def replay(self, request: ReplayReceiptRequest, deadline: Deadline) -> Replay:
        return await self._replayer.replay(request.tenant, request.id, request.changes, deadline)

    async def label(self, request: LabelRequest, deadline: Deadline) -> LabelledCase:
        receipt = await read_shown(self._receipts, self._engine, request.tenant, request.id)
        memories = await self._engine.tenant(request.tenant).get([one.id for one in receipt.considered])
        shared = self._config_for(receipt.request.agent_id).shared_users
        return case_of(receipt, memories, request.labels, shared)


def _in_brief(receipt: Receipt, request: ReceiptsRequest) -> dict[str, Any]:
    return {**brief(receipt), **({"message": receipt.request.message} if request.messages else {})}
