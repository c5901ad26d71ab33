"""Names of fields and types in files of other programs, and what they are called here."""

import re
from collections.abc import Mapping

from worker.domain.memory import MemoryType

_NAMES = {
    "content": (
        "text",
        "memory",
        "note",
        "fact",
        "body",
        "message",
        "statement",
        "data",
        "description",
        "page_content",
    ),
    "context": ("title", "subject", "topic", "heading", "section", "name"),
    "type": ("kind", "memory_type", "fact_type"),
    "created_at": ("created", "date", "timestamp", "time", "created_on", "mentioned_at", "saved_at", "create_time"),
    "importance": ("priority", "weight"),
    "entities": ("tags", "labels", "keywords", "names", "categories"),
    "user": ("user_id", "owner"),
    "agent": ("agent_id",),
    "project": ("project_id", "app_id"),
    "valid_until": ("expires", "expires_at", "expiration_date", "expiry", "expired_at", "valid_to", "invalid_at"),
    "occurred_at": ("happened_at", "event_date", "occurred_start", "valid_at"),
    "channel": ("channel_id", "channel_name", "room", "room_id"),
    "id": ("uuid",),
}
_OWN = (
    *("superseded_by", "superseded_at", "relations", "scope", "source", "version", "cues", "evidence", "pinned"),
    "category",
)

FIELDS = {name: name for name in (*_NAMES, *_OWN)} | {
    other: name for name, others in _NAMES.items() for other in others
}
"""Fields by the names that files use."""

ORDER = {name: place for place, name in enumerate(FIELDS)}
"""Of two names with the same meaning, the earlier one is used."""

TYPE_NAMES: Mapping[str, MemoryType] = {kind.value: kind for kind in MemoryType} | {
    "identities": MemoryType.IDENTITY,
    "goals": MemoryType.GOAL,
    "decisions": MemoryType.DECISION,
    "todos": MemoryType.TODO,
    "to_do": MemoryType.TODO,
    "to_dos": MemoryType.TODO,
    "tasks": MemoryType.TODO,
    "preferences": MemoryType.PREFERENCE,
    "facts": MemoryType.FACT,
    "events": MemoryType.EVENT,
    "observations": MemoryType.OBSERVATION,
    "mental_models": MemoryType.MENTAL_MODEL,
}
"""Memory types by the words for them."""

TYPE_TITLES = {kind: title.replace("_", " ").capitalize() for title, kind in TYPE_NAMES.items()}
"""The plural of each type, as a heading."""

_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_OTHERS = re.compile(r"[\W_]+")


def snake_case(name: str) -> str:
    """Return `createdAt`, `Created at` and `created-at` as `created_at`."""
    return _OTHERS.sub("_", _CAPITAL.sub("_", name.strip())).lower().strip("_")
