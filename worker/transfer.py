"""Memories as JSON Lines, one memory per line: what `export` writes and `import` reads. Pure."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from hooks.blocks import find_blocks

from .errors import MemoryRejected
from .models import Memory

MAX_CONTENT_CHARS = 20_000

_ALIASES = {"text": "content", "memory": "content", "tags": "entities"}


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line that was not taken, by its number (from 1), and why."""

    line: int
    reason: str


def read_lines(lines: Iterable[str], now: datetime) -> Iterator[tuple[int, Memory | Rejected]]:
    """Each non-blank line's number with its memory, or with the reason why it is none."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield number, memory_from(_object(line), now)
        except MemoryRejected as error:
            yield number, Rejected(number, str(error))


def _object(line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise MemoryRejected(f"not JSON: {error.msg} at column {error.colno}") from error
    if not isinstance(value, dict):
        raise MemoryRejected(f"expected a JSON object, found {type(value).__name__}")
    return value


def memory_from(raw: dict[str, Any], now: datetime) -> Memory:
    """A memory from loose JSON; the id is derived from scope and content, and `created_at` is `now`, where missing.

    Raises `MemoryRejected` saying which field is wrong.
    """
    fields = {_ALIASES.get(key, key): value for key, value in raw.items()}
    scope = fields.get("scope")
    if isinstance(scope, dict) and "channel" in scope:
        fields.setdefault("channel", scope["channel"])
        fields["scope"] = {key: value for key, value in scope.items() if key != "channel"}
    fields.setdefault("created_at", now)
    fields.setdefault("id", derived_id(fields))
    try:
        memory = Memory.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        raise MemoryRejected(f"{'.'.join(map(str, fault['loc'])) or 'memory'}: {fault['msg']}") from error
    check_content(memory)
    return memory


def derived_id(fields: dict[str, Any]) -> str:
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


def to_line(memory: Memory) -> str:
    """The memory as one line of JSON, without fields that are at their defaults."""
    return json.dumps(memory.model_dump(mode="json", exclude_defaults=True), ensure_ascii=False)
