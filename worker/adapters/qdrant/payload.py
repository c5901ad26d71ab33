"""How both engines store memories: point ids and payload.

Times are whole microseconds since 1970. Engines compare them as 64-bit floats, which are exact until 2255.
"""

import base64
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, TypeAlias, TypeVar

from hooks.contract import clean_text
from worker.domain.errors import BadCursor, StoreError
from worker.domain.kinds import SortKey
from worker.domain.memory import MEMORIES_CACHED, Memory, MemoryType, StoredMemory, Vector
from worker.domain.vectors import StoredVector, unpacked
from worker.text.names import name_keys

from .rows import Row, row_of

DENSE = "dense"
SPARSE = "bm25"
MEMORY = "memory"
CUE_VECTORS = "cue_vectors"
"""Only of a memory with cues, whose dense vector is that of text and cues: the vectors of its text and of each cue, as
base64 of one byte per value."""

CONTENT = (MEMORY, CUE_VECTORS)
"""Keys to read for a hit."""

LEFT_OUT = ("cues", "evidence", "pinned")
"""Fields of a memory that are stored only if they are set, so that earlier versions can read the others."""

TENANT = "tenant"
KEYWORD_KEYS = (TENANT, "user", "agent", "project", "type", "entities", "names", "channel", "points_at", "pinned")
NUMBER_KEYS = ("created_ts", "superseded_ts", "valid_until_ts", "times")
FRACTION_KEYS = ("importance",)
"""Keys to filter or sort by; both engines need an index on each that is set."""

SORT_KEYS = {SortKey.RECENT: "created_ts", SortKey.IMPORTANCE: "importance"}

EVERYBODY = ""
"""Stored as the owner of a memory without one, so that "everyone or one of these" is a single condition."""

PINNED = "yes"
"""Stored of a pinned memory; an unpinned one has an empty text, or nothing in stores of earlier versions."""

FAR_FUTURE = 2**53 - 1
LONG_AGO = -FAR_FUTURE

Value: TypeAlias = str | int | float

UNSET: Mapping[str, tuple[Value, ...]] = {
    "user": (EVERYBODY,),
    "agent": (EVERYBODY,),
    "project": (EVERYBODY,),
    "type": (MemoryType.FACT.value,),
    "entities": (),
    "names": (),
    "points_at": (),
    "superseded_ts": (FAR_FUTURE,),
    "valid_until_ts": (FAR_FUTURE,),
    "times": (),
    "channel": ("",),
    "pinned": ("",),
}
"""Values of a memory that does not set a key. Keys that every memory sets or is sorted by are missing."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NAMESPACE = uuid.UUID("7d0f5d0e-5b0c-5c39-9d8d-3f2b6a1c4e71")


def tenant_name(name: str) -> str:
    """Return the tenant's name as stored. Raise `StoreError` if it is empty; no search covers all tenants."""
    cleaned = str(clean_text(name))
    if not cleaned:
        raise StoreError("a tenant needs a name")
    return cleaned


@lru_cache(maxsize=MEMORIES_CACHED)  # a search excludes by id what the previous one found
def point_id(tenant: str, memory_id: str) -> str:
    """Return a memory's point id, a UUID (version 5) of tenant and memory id, which makes puts idempotent."""
    return str(uuid.uuid5(_NAMESPACE, json.dumps([tenant, clean_text(memory_id)])))


def point_ids(tenant: str, ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(point_id(tenant, key) for key in ids))


def page_start(cursor: str | None) -> str | None:
    """Return the point id at which a page starts. Raise `BadCursor` if the cursor is not from a page."""
    try:
        return None if cursor is None else str(uuid.UUID(cursor))
    except ValueError as error:
        raise BadCursor("cursor: unknown; use the cursor of the previous page") from error


def timestamp(moment: datetime) -> int:
    """Return microseconds since 1970, limited to exact floats; naive times are UTC."""
    aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return max(LONG_AGO, min(FAR_FUTURE, (aware - _EPOCH) // _MICROSECOND))


def point_payload(tenant: str, stored: StoredMemory) -> dict[str, Any]:
    """Return a memory's payload, with the vectors of its text and cues if its dense vector is that of both."""
    payload = payload_of(tenant, stored.memory)
    if stored.cues is not None:
        payload[CUE_VECTORS] = base64.b64encode(stored.cues.rows).decode("ascii")
    return payload


def searched(stored: StoredMemory) -> Vector | None:
    """Return the dense vector to search by."""
    return stored.dense if stored.cues is None else stored.cues.joint


def cue_rows(payload: Mapping[str, Any] | None) -> bytes:
    """Return the packed vectors of a memory's text and its cues, empty without cues."""
    text = (payload or {}).get(CUE_VECTORS)
    return base64.b64decode(text) if isinstance(text, str) else b""


def own_vector(rows: bytes, searched_by: StoredVector | None) -> StoredVector | None:
    """Return the vector of a memory's text, given its packed vectors and the one that searches use."""
    if searched_by is None or not rows:
        return searched_by
    own: StoredVector = unpacked(rows[: len(searched_by)], len(searched_by))[0]
    return own


def payload_of(tenant: str, memory: Memory) -> dict[str, Any]:
    """Return a memory's payload: values to filter by, and the memory itself as JSON under `memory`."""
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
        "pinned": PINNED if memory.pinned else "",
        MEMORY: memory.model_dump_json(exclude={name for name in LEFT_OUT if not getattr(memory, name)}),
    }


def _pointed_at(memory: Memory) -> list[str]:
    targets = [relation.target for relation in memory.relations]
    return list(dict.fromkeys([*targets, *([memory.superseded_by] if memory.superseded_by else [])]))


def _superseded(memory: Memory) -> int:
    """Return the time it was superseded; the distant past if that is unknown."""
    if memory.superseded_at is not None:
        return timestamp(memory.superseded_at)
    return FAR_FUTURE if memory.superseded_by is None else LONG_AGO


def row_in(payload: Mapping[str, Any] | None) -> Row:
    """Return the memory in a payload. Raise `StoreError` if it cannot be read."""
    text = (payload or {}).get(MEMORY)
    if not isinstance(text, str):
        raise StoreError("a stored point has no memory")
    return row_of(text)


T = TypeVar("T")


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Split the items into lists of at most `size`."""
    remaining = iter(items)
    while batch := list(islice(remaining, size)):
        yield batch


def by_point(tenant: str, memories: Sequence[StoredMemory]) -> dict[str, StoredMemory]:
    """Return memories by point id; the last of several with one id wins."""
    return {point_id(tenant, stored.memory.id): stored for stored in memories}
