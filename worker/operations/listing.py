"""Handler that lists memories: page by page, visible to a scope, with certain words, or newest first."""

import unicodedata
from collections.abc import Callable
from datetime import datetime

from hooks.contract import as_utc
from worker.domain.deadline import Deadline
from worker.domain.errors import BadCursor
from worker.domain.memory import Memory, MemoryFilter, Visibility, visible_to
from worker.domain.operation import AnyHandler
from worker.settings.injection import InjectionConfig
from worker.store.memories import MemoryService
from worker.text.lexicon import fold
from worker.text.names import named_text

from .registry import EXPORT
from .requests import MAX_BATCH, ExportRequest
from .results import MemoryPage

LEAST_S = 0.5
"""Least remaining seconds to read a further page when looking for words."""


class ListingOperations:
    def __init__(
        self,
        memories: MemoryService,
        config_for: Callable[[str], InjectionConfig],
        clock: Callable[[], datetime],
    ) -> None:
        self._memories = memories
        self._config_for = config_for
        self._clock = clock

    def handlers(self) -> tuple[AnyHandler, ...]:
        return (EXPORT.bind(self.export),)

    async def export(self, request: ExportRequest, deadline: Deadline) -> MemoryPage:
        where = self._where(request)
        if request.newest:
            found = await self._memories.newest(request.tenant, limit=request.limit, where=where)
            return MemoryPage(memories=list(found), cursor=None)
        if request.words is not None:
            return await self._with_words(request, request.words, where, deadline)
        page = await self._memories.page(request.tenant, limit=request.limit, cursor=request.cursor, where=where)
        return MemoryPage(memories=list(page.memories), cursor=page.cursor)

    def _where(self, request: ExportRequest) -> MemoryFilter:
        return MemoryFilter(
            visibility=self._visibility(request),
            types=request.types,
            user=request.user,
            entities=request.entities,
            since=request.since,
            until=request.until,
        )

    def _visibility(self, request: ExportRequest) -> Visibility | None:
        if request.scope is None:
            return None
        shared = self._config_for(request.agent_id).shared_users
        return visible_to(request.scope, request.agent_id, shared, as_utc(self._clock()), replay=False)

    async def _with_words(
        self, request: ExportRequest, words: str, where: MemoryFilter, deadline: Deadline
    ) -> MemoryPage:
        """Return the next memories with these words, as far as time allows."""
        wanted = _comparable(words).split()
        found: list[Memory] = []
        seen, start = _position(request.cursor)
        while True:
            page = await self._memories.page(request.tenant, limit=MAX_BATCH, cursor=start, where=where)
            for number, memory in enumerate(page.memories):
                if number < seen or not _has(memory, wanted):
                    continue
                if len(found) == request.limit:
                    return MemoryPage(memories=found, cursor=_cursor(number, start))
                found.append(memory)
            if page.cursor is None:
                return MemoryPage(memories=found, cursor=None)
            seen, start = 0, page.cursor
            if deadline.remaining() < LEAST_S:
                return MemoryPage(memories=found, cursor=_cursor(0, start))


def _has(memory: Memory, words: list[str]) -> bool:
    text = _comparable(named_text(memory))
    return all(word in text for word in words)


def _comparable(text: str) -> str:
    return fold(unicodedata.normalize("NFC", text))


def _cursor(seen: int, start: str | None) -> str:
    """Return the cursor that continues after `seen` memories of the page at `start`."""
    return f"{seen}.{start or ''}"


def _position(cursor: str | None) -> tuple[int, str | None]:
    if cursor is None:
        return 0, None
    seen, _, start = cursor.partition(".")
    if not (seen.isdecimal() and len(seen) <= len(str(MAX_BATCH))):
        raise BadCursor("cursor: unknown; use the cursor of the previous page")
    return int(seen), start or None
