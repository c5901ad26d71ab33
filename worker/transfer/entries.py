"""From loose fields to a memory and back: what every reader and writer of memories shares. Pure."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from hooks.blocks import find_blocks
from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.text.masking import mask_secrets

MAX_CONTENT_CHARS = 20_000

_ALIASES = {"text": "content", "memory": "content", "tags": "entities"}


@dataclass(frozen=True, slots=True)
class Rejected:
    """An entry that was not taken, by the number of its line (from 1), and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Fields:
    """An entry as a reader found it: the number of its line (from 1) and its loose fields."""

    line: int
    values: dict[str, Any]


Found = Fields | Rejected
"""What a reader of a format brings, in the order of the file."""


def memory_from(raw: Mapping[str, Any], now: datetime | None, *, mask: bool = False) -> Memory:
    """A memory from loose fields; the id is derived from scope and content where it is missing.

    `created_at` is `now` where it is missing; without `now` it stays unset, for whoever stores the memory to fill in.
    `mask` masks secrets in the content first. Raises `MemoryRejected` saying which field is wrong.
    """
    fields = {_ALIASES.get(key, key): value for key, value in raw.items()}
    scope = fields.get("scope")
    if isinstance(scope, dict) and "channel" in scope:
        fields.setdefault("channel", scope["channel"])
        fields["scope"] = {key: value for key, value in scope.items() if key != "channel"}
    if mask and isinstance(fields.get("content"), str):
        fields["content"] = mask_secrets(fields["content"])
    if now is not None:
        fields.setdefault("created_at", now)
    fields.setdefault("id", derived_id(fields))
    return _checked(fields)


def changed(memory: Memory, changes: Mapping[str, Any]) -> Memory:
    """`memory` with some fields replaced. Raises `MemoryRejected` for a value that it cannot have."""
    return _checked({**memory.model_dump(), **changes})


def _checked(fields: Mapping[str, Any]) -> Memory:
    try:
        memory = Memory.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise MemoryRejected(f"{'.'.join(map(str, fault['loc'])) or 'memory'}: {fault['msg']}") from error
    check_content(memory)
    return memory


def derived_id(fields: Mapping[str, Any]) -> str:
    """An id that the same content in the same scope always gets, so that remembering twice is remembering once."""
    identity = json.dumps([fields.get("scope") or {}, fields.get("content")], sort_keys=True, default=str)
    return "m" + hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:24]


def check_content(memory: Memory) -> None:
    """Raise `MemoryRejected` for content that must not become a memory."""
    if not memory.content.strip():
        raise MemoryRejected("content: blank")
    if len(memory.content) > MAX_CONTENT_CHARS:
        raise MemoryRejected(f"content: longer than {MAX_CONTENT_CHARS} characters")
    if find_blocks(memory.content):
        raise MemoryRejected("content: holds an injected block; strip it first, or recalled text feeds on itself")


def split_names(value: Any) -> list[str]:
    """Names from a list, from JSON of one, or from text that commas, semicolons or bars divide."""
    if isinstance(value, str):
        value = _json_list(value) or re.split(r"[,;|]", value)
    names = (str(name).strip().removeprefix("#") for name in value) if isinstance(value, list) else ()
    return list(dict.fromkeys(name for name in names if name))


def _json_list(text: str) -> list[Any] | None:
    try:
        value = json.loads(text) if text.lstrip().startswith("[") else None
    except ValueError:
        return None
    return value if isinstance(value, list) else None


def to_fields(memory: Memory) -> dict[str, Any]:
    """The memory as JSON, without fields that are at their defaults, but saying so where `created_at` is unknown."""
    fields = memory.model_dump(mode="json", exclude_defaults=True)
    if memory.created_at is None and "created_at" in memory.model_fields_set:
        fields["created_at"] = None
    return fields


def to_line(memory: Memory) -> str:
    """The memory as one line of JSON."""
    return json.dumps(to_fields(memory), ensure_ascii=False)
