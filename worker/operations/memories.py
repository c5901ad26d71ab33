"""What can be asked about single memories: JSON objects in and out. No decisions here."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any

from worker.domain.deadline import Deadline
from worker.domain.memory import MemoryFilter
from worker.domain.operation import Operation, OperationAnswer
from worker.store.memories import MemoryService
from worker.transfer import memory_from, to_fields

from .payloads import (
    ExportPayload,
    ForgetPayload,
    PutPayload,
    RelatePayload,
    RememberPayload,
    ShowPayload,
    UpdatePayload,
)

REMEMBER = "remember"
PUT = "put"
UPDATE = "update"
RELATE = "relate"
FORGET = "forget"
SHOW = "show"
EXPORT = "export"

WRITES = frozenset({REMEMBER, PUT, UPDATE, RELATE, FORGET})
"""Operations that change the store."""


class MemoryOperations:
    """Decode, call, encode. `mask` says that secrets are masked before anything is made of a memory."""

    def __init__(self, memory_service: MemoryService, clock: Callable[[], datetime], *, mask: bool = False) -> None:
        self._memory_service = memory_service
        self._clock = clock
        self._mask = mask

    def table(self) -> dict[str, Operation]:
        """Every operation by the name of its job."""
        return {
            REMEMBER: self.remember,
            PUT: self.put,
            UPDATE: self.update,
            RELATE: self.relate,
            FORGET: self.forget,
            SHOW: self.show,
            EXPORT: self.export,
        }

    async def remember(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = RememberPayload.model_validate(payload)
        memory = memory_from(wanted.memory, None, mask=self._mask)
        if "id" not in wanted.memory:
            present = await self._memory_service.get(wanted.tenant, [memory.id])
            if present and present[0].content == memory.content:
                return OperationAnswer({"id": memory.id, "stored": "unchanged"})
        stored = await self._memory_service.put(wanted.tenant, [memory], now=self._clock())
        verb = "created" if stored.created else "updated" if stored.updated else "unchanged"
        return OperationAnswer({"id": memory.id, "stored": verb, "without_vector": bool(stored.without_vector)})

    async def put(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = PutPayload.model_validate(payload)
        stored = await self._memory_service.put(wanted.tenant, wanted.memories, now=self._clock(), mask=wanted.mask)
        return OperationAnswer(
            {key: len(value) if isinstance(value, tuple) else value for key, value in asdict(stored).items()}
        )

    async def update(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = UpdatePayload.model_validate(payload)
        memory = await self._memory_service.update(wanted.tenant, wanted.id, wanted.changes)
        return OperationAnswer({"memory": to_fields(memory)})

    async def relate(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = RelatePayload.model_validate(payload)
        memory = await self._memory_service.relate(wanted.tenant, wanted.source, wanted.kind, wanted.target)
        return OperationAnswer({"memory": to_fields(memory)})

    async def forget(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = ForgetPayload.model_validate(payload)
        return OperationAnswer({"forgotten": await self._memory_service.forget(wanted.tenant, wanted.ids)})

    async def show(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = ShowPayload.model_validate(payload)
        shown = await self._memory_service.show(wanted.tenant, wanted.id)
        parts = {"earlier": shown.earlier, "later": shown.later, "related": shown.related}
        lists = {name: [to_fields(memory) for memory in memories] for name, memories in parts.items()}
        return OperationAnswer({"memory": to_fields(shown.memory), **lists})

    async def export(self, payload: dict[str, Any], deadline: Deadline) -> OperationAnswer:
        wanted = ExportPayload.model_validate(payload)
        where = MemoryFilter(types=wanted.types, user=wanted.user)
        page = await self._memory_service.page(wanted.tenant, limit=wanted.limit, cursor=wanted.cursor, where=where)
        return OperationAnswer({"memories": [to_fields(memory) for memory in page.memories], "cursor": page.cursor})
