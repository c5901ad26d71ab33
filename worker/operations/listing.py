"""Handler that lists memories: page by page, visible to a scope, with certain words, or newest first."""

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime

from hooks.contract import Reason, as_utc
from worker.domain.deadline import Deadline
from worker.domain.errors import BadCursor, OperationError
from worker.domain.memory import Memory, MemoryFilter, Visibility
from worker.domain.operation import AnyHandler
from worker.domain.visibility import visible_to
from worker.domain.zones import in_zone, zone_name, zone_of
from worker.settings.injection import InjectionConfig
from worker.store.memories import MemoryService
from worker.text.lexicon import fold
from worker.text.names import named_text

from .registry import EXPORT
from .requests import MAX_BATCH, ExportRequest
from .results import MemoryPage

LEAST_S = 0.5
"""Least remaining seconds to read a further page when looking for words."""


MOST_DIGITS = 9
"""Length of a cursor of a list that begins with the newest."""


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
        page = await self._page(request, where, deadline)
        return page.model_copy(update={"time_zone": zone_name(where.zone)})

    async def _page(self, request: ExportRequest, where: MemoryFilter, deadline: Deadline) -> MemoryPage:
        if request.newest:
            return await self._newest(request, where, deadline)
        if request.words is not None:
            return await self._with_words(request, request.words, where, deadline)
        page = await self._memories.page(request.tenant, limit=request.limit, cursor=request.cursor, where=where)
        return MemoryPage(memories=list(filter(where.has_time_of, page.memories)), cursor=page.cursor)

    def _where(self, request: ExportRequest) -> MemoryFilter:
        zone = zone_of(request.tz or self._config_for(request.agent_id).time_zone)
        return MemoryFilter(
            visibility=self._visibility(request),
            types=request.types,
            user=request.user,
            project=request.project,
            entities=request.entities,
            since=request.since and in_zone(request.since, zone),
            until=request.until and in_zone(request.until, zone),
            zone=zone,
        )

    def _visibility(self, request: ExportRequest) -> Visibility | None:
        if request.scope is None:
            return None
        config, scope, now = self._config_for(request.agent_id), request.scope, as_utc(self._clock())
        channels = config.channels_told(scope.channel)
        return visible_to(scope, request.agent_id, config.shared_users, now, replay=False, channels=channels)

    async def _newest(self, request: ExportRequest, where: MemoryFilter, deadline: Deadline) -> MemoryPage:
        seen = _offset(request.cursor)
        end = seen + request.limit
        found: list[Memory] = []
        if request.words is None and seen == 0 and where.zone is UTC:
            found = list(await self._memories.newest(request.tenant, limit=end + 1, where=where))
        if not found or _may_be_cut(found, end):
            found = await self._sorted(request, where, end + 1, deadline)
        return MemoryPage(memories=found[seen:end], cursor=str(end) if len(found) > end else None)

    async def _sorted(
        self, request: ExportRequest, where: MemoryFilter, limit: int, deadline: Deadline
    ) -> list[Memory]:
        """Return the newest with the words; the store orders only a few. Ties stay in its order of ids."""
        wanted = _comparable(request.words or "").split()
        found: list[Memory] = []
        start = None
        while True:
            page = await self._memories.page(request.tenant, limit=MAX_BATCH, cursor=start, where=where)
            more = [memory for memory in page.memories if _has(memory, wanted) and where.has_time_of(memory)]
            found = sorted([*found, *more], key=_created, reverse=True)[:limit]
            if page.cursor is None:
                return found
            if deadline.remaining() < LEAST_S:
                raise OperationError(Reason.DEADLINE, "too many memories to sort in time; narrow the list")
            start = page.cursor

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
                if number < seen or not (_has(memory, wanted) and where.has_time_of(memory)):
                    continue
                if len(found) == request.limit:
                    return MemoryPage(memories=found, cursor=_cursor(number, start))
                found.append(memory)
            if page.cursor is None:
                return MemoryPage(memories=found, cursor=None)
            seen, start = 0, page.cursor
            if deadline.remaining() < LEAST_S:
                return MemoryPage(memories=found, cursor=_cursor(0, start))


def _created(memory: Memory) -> datetime:
    return as_utc(memory.created_at) if memory.created_at else datetime.min.replace(tzinfo=UTC)


def _may_be_cut(found: list[Memory], end: int) -> bool:
    """Return whether memories of one time go on after the page, of which the store has taken any."""
    return len(found) > end and _created(found[end - 1]) == _created(found[end])


def _offset(cursor: str | None) -> int:
    if cursor is not None and not (cursor.isdecimal() and cursor.isascii() and len(cursor) <= MOST_DIGITS):
        raise BadCursor("cursor: unknown; use the cursor of the previous page")
    return int(cursor or 0)


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
