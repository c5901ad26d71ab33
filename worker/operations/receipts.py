"""What can be asked about requests that were: run again, turned into a case, what their answers used."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import Field

from hooks.contract import Key
from hooks.usage_contract import AnswerReport
from hooks.wire import POST_EXECUTION
from worker.domain.deadline import Deadline
from worker.domain.errors import QueueError
from worker.domain.operation import Operation, OperationAnswer
from worker.domain.usage import Usage
from worker.ports.state import ReceiptStore, UsageStore
from worker.ports.store import StoreEngine
from worker.receipts.answer_usage import AnswerUsage
from worker.receipts.cases import Labels, case_of
from worker.receipts.replay import Replayer, ReplayRequest
from worker.settings.injection import InjectionConfig
from worker.text.rendering import shown_text

from .memories import FORGET, SHOW
from .payloads import ForgetPayload, ShowPayload, TenantPayload

REPLAY = "replay"
LABEL = "label"
USAGE = "usage"

PAGE = 200
"""Memories that are read at a time."""

SHOWN_CHARS = 200

MOST_LISTED = 10_000


class ReplayPayload(TenantPayload):
    id: Key
    changes: ReplayRequest = ReplayRequest()


class LabelPayload(TenantPayload):
    id: Key
    labels: Labels = Labels()


class UsagePayload(TenantPayload):
    """Which memories are wanted: those never used, those injected at least so often; the most neglected first."""

    never_used: bool = False
    min_injected: int = Field(default=1, ge=1)
    limit: int = Field(default=100, ge=1, le=MOST_LISTED)


class FeedbackOperations:
    """Decode, call, encode; and what becomes of `show` and `forget` where counts of use are kept."""

    def __init__(
        self,
        *,
        replayer: Replayer,
        feedback: AnswerUsage,
        receipts: ReceiptStore,
        usage: UsageStore,
        engine: StoreEngine,
        config_for: Callable[[str], InjectionConfig],
    ) -> None:
        self._replayer = replayer
        self._feedback = feedback
        self._receipts = receipts
        self._usage = usage
        self._engine = engine
        self._config_for = config_for

    def table(self, others: Mapping[str, Operation]) -> dict[str, Operation]:
        """Every operation by the name of its job; `show` and `forget` of the `others` are done by way of this."""

        async def show(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
            return await self._show(others[SHOW], payload, deadline)

        async def forget(payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
            return await self._forget(others[FORGET], payload, deadline)

        own = {REPLAY: self.replay, LABEL: self.label, POST_EXECUTION: self.report, USAGE: self.usage}
        return {**own, SHOW: show, FORGET: forget}

    async def replay(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = ReplayPayload.model_validate(payload)
        found = await self._replayer.replay(wanted.tenant, wanted.id, wanted.changes, deadline)
        return OperationAnswer(found.model_dump(mode="json"))

    async def label(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = LabelPayload.model_validate(payload)
        receipt = await self._receipts.read(wanted.tenant, wanted.id)
        today = await self._engine.tenant(wanted.tenant).get([one.id for one in receipt.considered])
        shared = self._config_for(receipt.request.agent_id).shared_users
        return OperationAnswer(case_of(receipt, today, wanted.labels, shared).model_dump(mode="json"))

    async def report(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        result = await self._feedback.report(AnswerReport.model_validate(payload), deadline)
        return OperationAnswer(result.model_dump(mode="json"))

    async def usage(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = UsagePayload.model_validate(payload)
        counts = await self._usage.everything(wanted.tenant)
        listed = listing(counts, never_used=wanted.never_used, min_injected=wanted.min_injected)
        texts = await self._texts(wanted.tenant, [key for key, _ in listed])
        rows = [{"id": key, **fields_of(one), "text": texts[key]} for key, one in listed if key in texts]
        return OperationAnswer({"memories": rows[: wanted.limit], "counted": len(counts)})

    async def _texts(self, tenant: str, ids: Sequence[str]) -> dict[str, str]:
        """What the memories that are still there say, in brief."""
        store, found = self._engine.tenant(tenant), dict[str, str]()
        for start in range(0, len(ids), PAGE):
            memories = await store.get(ids[start : start + PAGE])
            found |= {memory.id: shown_text(memory.content, SHOWN_CHARS, mask=True) for memory in memories}
        return found

    async def _show(self, inner: Operation, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        """A memory with its counts, `null` where none are known or they are out of reach."""
        answer = await inner(payload, deadline)
        wanted = ShowPayload.model_validate(payload)
        try:
            known = (await self._usage.read(wanted.tenant, [wanted.id])).get(wanted.id)
        except QueueError:
            known = None
        return OperationAnswer({**answer.body, "usage": fields_of(known) if known else None})

    async def _forget(self, inner: Operation, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        """Delete memories; should their counts not go with them, they name nothing and expire."""
        answer = await inner(payload, deadline)
        wanted = ForgetPayload.model_validate(payload)
        try:
            await self._usage.forget(wanted.tenant, wanted.ids)
        except QueueError:
            return answer
        return answer


def listing(counts: Mapping[str, Usage], *, never_used: bool, min_injected: int) -> list[tuple[str, Usage]]:
    """The memories that are wanted, the most neglected first, then the most injected, then by id. Pure."""
    wanted = (
        (key, one) for key, one in counts.items() if one.injected >= min_injected and not (never_used and one.used)
    )
    return sorted(wanted, key=lambda pair: (-pair[1].neglect, -pair[1].injected, pair[0]))


def fields_of(usage: Usage) -> dict[str, Any]:
    """The counts as JSON."""
    return {
        "injected": usage.injected,
        "used": usage.used,
        "last_injected": usage.last_injected.isoformat() if usage.last_injected else None,
        "last_used": usage.last_used.isoformat() if usage.last_used else None,
    }
