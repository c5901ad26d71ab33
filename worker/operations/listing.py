"""Handler that lists memories: page by page, visible to a scope, with certain words, or newest first."""

import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

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


MOST_DIGITS, MOST_DIGITS_OF_TIME = 9, 18
"""Length of a place in a sorted list, and of a time in microseconds."""


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
            agent=request.agent,
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
        exact = where.zone is UTC or (where.since is None and where.until is None)
        if request.words is None and exact and (request.cursor is None or not request.cursor.isdecimal()):
            return await self._by_time(request, where)
        seen = _offset(request.cursor)
        end = seen + request.limit
        found = await self._sorted(request, where, end + 1, deadline)
        return MemoryPage(memories=found[seen:end], cursor=str(end) if len(found) > end else None)

    async def _by_time(self, request: ExportRequest, where: MemoryFilter) -> MemoryPage:
        """Go on where the last page ended. Memories of one moment have no order, so they are listed by a scroll."""
        place, found = _place_in(request.cursor), list[Memory]()
        while len(found) < request.limit:
            if place.within is not None:
                place, more = await self._of_moment(request, where, place, request.limit - len(found))
            else:
                place, more = await self._older(request, where, place, request.limit - len(found))
            found += more
            if place is _END:
                return MemoryPage(memories=found, cursor=None)
        return MemoryPage(memories=found, cursor=str(place))

    async def _of_moment(
        self, request: ExportRequest, where: MemoryFilter, place: "_Place", limit: int
    ) -> "tuple[_Place, list[Memory]]":
        moment = replace(where, created_from=place.at, created_until=place.at)
        page = await self._memories.page(request.tenant, limit=limit, cursor=place.within or None, where=moment)
        rest = _Place(place.at, page.cursor) if page.cursor else _END if place.at == _UNKNOWN else _Place(place.at)
        return rest, list(page.memories)

    async def _older(
        self, request: ExportRequest, where: MemoryFilter, place: "_Place", limit: int
    ) -> "tuple[_Place, list[Memory]]":
        """Return the next memories that are newer than the last one that was read, which begins the next moment."""
        before = None if place.at is None else place.at - timedelta(microseconds=1)
        older = replace(where, created_until=before)
        read = await self._memories.newest(request.tenant, limit=limit + 1, where=older)
        if len(read) <= limit:
            return _END, list(read)
        moment = _created(read[-1])
        return _Place(moment, ""), [memory for memory in read if _created(memory) > moment]

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
    return as_utc(memory.created_at) if memory.created_at else _UNKNOWN


_UNKNOWN = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a list by time goes on: among those of the moment `at`, or with `within` unset before it."""

    at: datetime | None = None
    within: str | None = None

    def __str__(self) -> str:
        moment = "" if self.at is None else str((self.at - _UNKNOWN) // _MICROSECOND)
        return f"t{moment}" + ("" if self.within is None else f".{self.within}")


_MICROSECOND = timedelta(microseconds=1)
_END = _Place(within="end")


def _place_in(cursor: str | None) -> _Place:
    """Return the place that a cursor names. Raise `BadCursor`."""
    if cursor is None:
        return _Place()
    moment, dot, within = cursor.removeprefix("t").partition(".")
    if not (cursor.startswith("t") and moment.isdecimal() and moment.isascii() and len(moment) <= MOST_DIGITS_OF_TIME):
        raise BadCursor("cursor: unknown; use the cursor of the previous page")
    try:
        return _Place(_UNKNOWN + int(moment) * _MICROSECOND, within if dot else None)
    except OverflowError as error:
        raise BadCursor("cursor: unknown; use the cursor of the previous page") from error


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
