"""Handlers for reported answers and the usage of memories."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from hooks.contract.usage import AnswerReport, AnswerReportResult
from worker.domain.deadline import Deadline
from worker.domain.operation import AnyHandler
from worker.domain.usage import Usage
from worker.ports.state import UsageStore
from worker.ports.store import StoreEngine
from worker.receipts.answer_usage import AnswerUsage
from worker.text.rendering import shown_text

from .registry import POST_EXECUTION, USAGE
from .requests import UsageRequest
from .results import MemoryUsage, UsageCounts, UsageList

PAGE = 200
"""Memories to read at a time."""

SHOWN_CHARS = 200


class UsageOperations:
    def __init__(self, answers: AnswerUsage, usage: UsageStore, engine: StoreEngine) -> None:
        self._answers = answers
        self._usage = usage
        self._engine = engine

    def handlers(self) -> tuple[AnyHandler, ...]:
        return POST_EXECUTION.bind(self.report), USAGE.bind(self.usage)

    async def report(self, request: AnswerReport, deadline: Deadline) -> AnswerReportResult:
        return await self._answers.report(request, deadline)

    async def usage(self, request: UsageRequest, deadline: Deadline) -> UsageList:
        counts = await self._usage.read_all(request.tenant)
        listed = sorted_by_neglect(counts, never_used=request.never_used, min_injected=request.min_injected)
        texts = await self._texts(request.tenant, [key for key, _ in listed])
        kept = [(key, usage) for key, usage in listed if key in texts][: request.limit]
        rows = [MemoryUsage(id=key, text=texts[key], **asdict(usage)) for key, usage in kept]
        return UsageList(memories=rows, counted=len(counts))

    async def _texts(self, tenant: str, ids: Sequence[str]) -> dict[str, str]:
        """Return shortened texts of the memories that still exist."""
        store, found = self._engine.tenant(tenant), dict[str, str]()
        for start in range(0, len(ids), PAGE):
            memories = await store.get(ids[start : start + PAGE])
            found |= {memory.id: shown_text(memory.content, SHOWN_CHARS, mask=True) for memory in memories}
        return found


def sorted_by_neglect(counts: Mapping[str, Usage], *, never_used: bool, min_injected: int) -> list[tuple[str, Usage]]:
    """Return the matching memories: most neglected first, then most injected, then by id."""
    found = (
        (key, usage)
        for key, usage in counts.items()
        if usage.injected >= min_injected and not (never_used and usage.used)
    )
    return sorted(found, key=lambda pair: (-pair[1].neglect, -pair[1].injected, pair[0]))


def counts_of(usage: Usage) -> UsageCounts:
    return UsageCounts(**asdict(usage))
