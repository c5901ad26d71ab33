"""How memories lie in a store, whichever engine keeps it: point ids, payload, filter conditions, the store's record.

Times are whole microseconds since 1970, which 64-bit floats hold exactly until 2255; engines compare ranges in floats.
"""

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from hooks.contract import clean_text
from worker.domain.errors import BadCursor, StoreError
from worker.domain.kinds import SortKey
from worker.domain.memory import Memory, MemoryFilter, StoredMemory, Visibility
from worker.ports.store_record import EmbedderRecord
from worker.text.names import name_keys

DENSE = "dense"
SPARSE = "bm25"
MEMORY = "memory"

TENANT = "tenant"
KEYWORD_KEYS = (TENANT, "user", "agent", "project", "type", "entities", "names", "channel", "points_at")
NUMBER_KEYS = ("created_ts", "superseded_ts", "valid_until_ts", "times")
FRACTION_KEYS = ("importance",)
"""Every key that a filter or an order may name; both engines need an index on each of them."""

SORT_KEYS = {SortKey.RECENT: "created_ts", SortKey.IMPORTANCE: "importance"}

EVERYBODY = ""
"""Stored as the owner of a memory that has none, so that "everybody or one of these" is a single condition."""

FAR_FUTURE = 2**53 - 1
LONG_AGO = -FAR_FUTURE

PARSED = 16_384
"""Memories that are kept parsed, some kilobytes each."""

POINT_IDS = 16_384
"""Point ids that are kept: what a search has found, the next one leaves out by id."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NAMESPACE = uuid.UUID("7d0f5d0e-5b0c-5c39-9d8d-3f2b6a1c4e71")


@dataclass(frozen=True, slots=True)
class Equals:
    """The value of `key` is `value`."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class AnyOf:
    """The value of `key`, or one of its values, is among `values`."""

    key: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtLeast:
    """The number under `key` is `bound` or more."""

    key: str
    bound: float


@dataclass(frozen=True, slots=True)
class AtMost:
    """The number under `key` is `bound` or less."""

    key: str
    bound: int


@dataclass(frozen=True, slots=True)
class Above:
    """The number under `key` is more than `bound`."""

    key: str
    bound: int


@dataclass(frozen=True, slots=True)
class Within:
    """The number under `key`, or one of them, is from `low` to `high`, both included."""

    key: str
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class IsPoint:
    """The point's id is among `points`."""

    points: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsNotPoint:
    """The point's id is not among `points`."""

    points: tuple[str, ...]


Condition = Equals | AnyOf | AtLeast | AtMost | Above | Within | IsPoint | IsNotPoint


def tenant_name(name: str) -> str:
    """A tenant's name as it is stored. Raises `StoreError` when it is empty: there is no search over all tenants."""
    cleaned = str(clean_text(name))
    if not cleaned:
        raise StoreError("a tenant needs a name")
    return cleaned


@lru_cache(maxsize=POINT_IDS)
def point_id(tenant: str, memory_id: str) -> str:
    """The id under which a memory is stored: a UUID (version 5) of tenant and memory id; puts are idempotent by it."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([tenant, clean_text(memory_id)])))


def page_start(cursor: str | None) -> str | None:
    """The point id that a listing goes on from. Raises `BadCursor` for one that no page gave."""
    try:
        return None if cursor is None else str(uuid.UUID(cursor))
    except ValueError as error:
        raise BadCursor("cursor: no page of a listing gave it") from error


def timestamp(moment: datetime) -> int:
    """Microseconds since 1970, kept within what floats hold exactly; naive times are UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return max(LONG_AGO, min(FAR_FUTURE, (aware - _EPOCH) // _MICROSECOND))


def payload_of(tenant: str, memory: Memory) -> dict[str, Any]:
    """The payload of a memory: flat values to filter by, and the memory itself as JSON under `memory`."""
    return {
        TENANT: tenant,
        "user": memory.scope.user or EVERYBODY,
        "agent": memory.scope.agent or EVERYBODY,
        "project": memory.scope.project or EVERYBODY,
        "type": memory.type.value,
        "entities": [entity.casefold() for entity in memory.entities],
        "names": name_keys(memory.entities),
        "points_at": _pointed_at(memory),
        "created_ts": LONG_AGO if memory.created_at is None else timestamp(memory.created_at),
        "superseded_ts": _superseded(memory),
        "valid_until_ts": FAR_FUTURE if memory.valid_until is None else timestamp(memory.valid_until),
        "times": [timestamp(moment) for moment in (memory.created_at, memory.occurred_at) if moment is not None],
        "importance": memory.importance,
        "channel": memory.channel or "",
        MEMORY: memory.model_dump_json(),
    }


def _pointed_at(memory: Memory) -> list[str]:
    """Every id that a memory names."""
    targets = [relation.target for relation in memory.relations]
    return list(dict.fromkeys([*targets, *([memory.superseded_by] if memory.superseded_by else [])]))


def _superseded(memory: Memory) -> int:
    """A memory that is superseded at an unknown time has been so for ever."""
    if memory.superseded_at is not None:
        return timestamp(memory.superseded_at)
    return FAR_FUTURE if memory.superseded_by is None else LONG_AGO


def memory_of(payload: Mapping[str, Any] | None) -> Memory:
    """The memory of a payload. Raises `StoreError` when it cannot be read."""
    text = (payload or {}).get(MEMORY)
    if not isinstance(text, str):
        raise StoreError("a stored point holds no memory")
    return _parsed(text)


@lru_cache(maxsize=PARSED)
def _parsed(text: str) -> Memory:
    """The same text is the same memory; several legs of a search, and the next one, read the same ones."""
    try:
        return Memory.model_validate_json(text)
    except ValidationError as error:
        raise StoreError(f"a stored memory cannot be read: {error.error_count()} faults") from error


def conditions(tenant: str, where: MemoryFilter | None) -> tuple[Condition, ...]:
    """What a point must fulfil, all of it; the tenant comes first and always."""
    found: list[Condition] = [Equals(TENANT, tenant_name(tenant))]
    if where is None:
        return tuple(found)
    if where.visibility is not None:
        found += _visible(where.visibility)
    if where.user is not None:
        found.append(Equals("user", str(clean_text(where.user))))
    if where.importance is not None:
        found.append(AtLeast("importance", where.importance))
    if where.ids:
        found.append(IsPoint(tuple(point_id(tenant_name(tenant), key) for key in where.ids)))
    if where.other_than:
        found.append(IsNotPoint(tuple(point_id(tenant_name(tenant), key) for key in where.other_than)))
    return (*found, *_narrowed(where), *_dated(where.since, where.until))


def _narrowed(where: MemoryFilter) -> Iterator[Condition]:
    wanted = {
        "type": [kind.value for kind in where.types],
        "entities": [str(clean_text(entity)).casefold() for entity in where.entities],
        "names": where.names,
        "channel": map(clean_text, where.channels),
        "points_at": map(clean_text, where.pointing_at),
    }
    for key, values in wanted.items():
        allowed = tuple(map(str, values))
        if allowed:
            yield AnyOf(key, allowed)


def _visible(visibility: Visibility) -> list[Condition]:
    found: list[Condition] = [
        AnyOf("user", _owners(visibility.users)),
        AnyOf("agent", _owners(visibility.agents)),
        AnyOf("project", _owners(visibility.projects)),
    ]
    if visibility.valid_at is not None:
        now = timestamp(visibility.valid_at)
        found.append(Above("valid_until_ts", now))
        if not visibility.superseded:
            found.append(Above("superseded_ts", now))
    if visibility.created_until is not None:
        found.append(AtMost("created_ts", timestamp(visibility.created_until)))
    return found


def _owners(names: tuple[str, ...]) -> tuple[str, ...]:
    return (EVERYBODY, *(str(clean_text(name)) for name in names))


def _dated(since: datetime | None, until: datetime | None) -> list[Condition]:
    """A search narrowed by time brings what was noted or happened then."""
    if since is None and until is None:
        return []
    low = LONG_AGO if since is None else timestamp(since)
    return [Within("times", low, FAR_FUTURE if until is None else timestamp(until))]


UNKNOWN_EMBEDDER = EmbedderRecord("an unknown embedder", "", 0)


def by_point(tenant: str, memories: Sequence[StoredMemory]) -> dict[str, StoredMemory]:
    """Memories by point id; of several with one id the last one counts."""
    return {point_id(tenant, stored.memory.id): stored for stored in memories}
