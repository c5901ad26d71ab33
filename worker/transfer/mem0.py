"""Memories exported from mem0: `id`, `memory`, `user_id`, `created_at`, `metadata`, `categories`."""

from collections.abc import Mapping
from typing import Any

from worker.domain.memory import MemoryType

from .entries import split_names

_SCOPE = {"user_id": "user", "agent_id": "agent", "app_id": "project"}
_TYPES = frozenset(MemoryType)
_KEPT = ("importance", "occurred_at", "valid_until", "channel")


def is_mem0(raw: Mapping[str, Any]) -> bool:
    """Return whether these are the fields of a mem0 memory."""
    return isinstance(raw.get("memory"), str) and "content" not in raw and "text" not in raw


def from_mem0(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the corresponding fields of a memory, dropping others."""
    more = raw.get("metadata")
    metadata: Mapping[str, Any] = more if isinstance(more, dict) else {}
    fields: dict[str, Any] = {"content": raw["memory"], "source": "mem0"}
    if raw.get("id"):
        fields["id"] = str(raw["id"])
    if raw.get("created_at"):
        fields["created_at"] = raw["created_at"]
    if raw.get("expiration_date"):
        fields["valid_until"] = raw["expiration_date"]
    fields |= {key: metadata[key] for key in _KEPT if metadata.get(key) is not None}
    if str(metadata.get("type", "")).lower() in _TYPES:
        fields["type"] = str(metadata["type"]).lower()
    scope = {ours: str(raw[theirs]) for theirs, ours in _SCOPE.items() if raw.get(theirs)}
    if scope:
        fields["scope"] = scope
    names = [*split_names(raw.get("categories")), *split_names(metadata.get("entities"))]
    if names:
        fields["entities"] = list(dict.fromkeys(names))
    return fields
