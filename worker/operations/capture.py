"""Handlers for captures: memories from conversations, their receipts, and proposals that wait for review."""

from collections.abc import Sequence
from itertools import chain

from hooks.contract import Reason
from hooks.contract.capture import CapturedChange, CaptureMode, CaptureRequest, CaptureResult, LeftOutChange
from worker.capture.deleted_texts import memories_of, without_texts_of
from worker.capture.model_capture import ModelCapture
from worker.capture.review import CaptureReview
from worker.capture.service import Captured, CaptureParts, CaptureService, settle
from worker.domain.capture import CaptureReading, CaptureReceipt, CaptureSource, CaptureWork, DropReason
from worker.domain.deadline import Deadline
from worker.domain.errors import OperationError
from worker.domain.operation import AnyHandler
from worker.ports.capture import CaptureQueue

from . import registry
from .requests import AcceptRequest, CaptureIdRequest, CapturesRequest, IdRequest, ProposalsRequest
from .results import AcceptResult, CaptureList, ProposalList, RejectResult

NO_SERVICE = "captures need a running service; start one with `meeseeks start`"


class CaptureOperations:
    """Without `queue` and `model`, only what people ask to be remembered is captured."""

    def __init__(self, parts: CaptureParts, queue: CaptureQueue | None, model: ModelCapture | None) -> None:
        self._parts = parts
        self._service = CaptureService(parts, queue)
        self._review = CaptureReview(parts)
        self._captures = parts.captures
        self._model = model

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (
            registry.CAPTURE.bind(self.capture),
            registry.CAPTURES.bind(self.captures),
            registry.CAPTURE_SHOW.bind(self.show),
            registry.CAPTURE_UNDO.bind(self.undo),
            registry.CAPTURE_READ.bind(self.read),
            registry.CAPTURE_SETTLE.bind(self.settle),
            registry.PROPOSALS.bind(self.proposals),
            registry.PROPOSAL_ACCEPT.bind(self.accept),
            registry.PROPOSAL_REJECT.bind(self.reject),
        )

    async def capture(self, request: CaptureRequest, deadline: Deadline) -> CaptureResult:
        source = CaptureSource(**request.model_dump(include=set(CaptureSource.model_fields)))
        mode = CaptureMode(request.mode) if request.mode is not None else None
        return result_of(await self._service.capture(source, request.turns, mode))

    async def captures(self, request: CapturesRequest, deadline: Deadline) -> CaptureList:
        found = await self._captures.recent(request.tenant, request.limit)
        return CaptureList(captures=await self._without_deleted(request.tenant, found))

    async def show(self, request: CaptureIdRequest, deadline: Deadline) -> CaptureReceipt:
        found = await self._captures.read(request.tenant, request.id)
        (shown,) = await self._without_deleted(request.tenant, [found])
        return shown

    async def _without_deleted(self, tenant: str, receipts: Sequence[CaptureReceipt]) -> list[CaptureReceipt]:
        """Return captures without texts of memories that are no longer stored."""
        ids = frozenset[str]().union(*map(memories_of, receipts))
        stored = {memory.id for memory in await self._parts.memories.get(tenant, list(ids))} if ids else set()
        return [without_texts_of(receipt, ids - stored) for receipt in receipts]

    async def undo(self, request: CaptureIdRequest, deadline: Deadline) -> CaptureReceipt:
        return await self._review.undo(request.tenant, request.id)

    async def read(self, request: CaptureWork, deadline: Deadline) -> CaptureReading:
        if self._model is None:
            raise OperationError(Reason.BAD_REQUEST, "no model is configured to read conversations")
        return await self._model.read(request, deadline)

    async def settle(self, request: CaptureReceipt, deadline: Deadline) -> CaptureReceipt:
        return await settle(self._parts, request)

    async def proposals(self, request: ProposalsRequest, deadline: Deadline) -> ProposalList:
        return ProposalList(proposals=await self._review.proposals(request.tenant, request.user))

    async def accept(self, request: AcceptRequest, deadline: Deadline) -> AcceptResult:
        memory_id, stored = await self._review.accept(request.tenant, request.id, request.text)
        return AcceptResult(id=memory_id, stored=stored.value)

    async def reject(self, request: IdRequest, deadline: Deadline) -> RejectResult:
        await self._review.reject(request.tenant, request.id)
        return RejectResult(rejected=request.id)


def unavailable() -> tuple[AnyHandler, ...]:
    """Return handlers for a process without a service, which say what to do."""

    async def refuse(request: object, deadline: Deadline) -> CaptureResult:
        raise OperationError(Reason.BAD_REQUEST, NO_SERVICE)

    operations = (
        *(registry.CAPTURE, registry.CAPTURES, registry.CAPTURE_SHOW, registry.CAPTURE_UNDO),
        *(registry.PROPOSALS, registry.PROPOSAL_ACCEPT, registry.PROPOSAL_REJECT),
    )
    return tuple(operation.bind(refuse) for operation in operations)  # type: ignore[arg-type]


def result_of(captured: Captured) -> CaptureResult:
    """Return the answer for a capture."""
    full = [LeftOutChange(reason=DropReason.INBOX_FULL.value)] if captured.full else []
    return CaptureResult(
        mode=captured.mode.value,
        new_turns=captured.new_turns,
        waiting=captured.waiting,
        captures=tuple(receipt.id for receipt in captured.receipts),
        changes=tuple(chain.from_iterable(map(_changes, captured.receipts))),
        left_out=tuple(chain(chain.from_iterable(map(_left_out, captured.receipts)), full)),
    )


def _left_out(receipt: CaptureReceipt) -> Sequence[LeftOutChange]:
    return [LeftOutChange(reason=one.reason.value, text=one.text) for one in receipt.drops]


def _changes(receipt: CaptureReceipt) -> Sequence[CapturedChange]:
    return [
        CapturedChange(
            id=one.id,
            operation=one.change.kind.value,
            stored=one.stored.value,
            text=one.change.memory.content,
            target=one.change.target,
            capture=receipt.id,
        )
        for one in receipt.changes
    ]
