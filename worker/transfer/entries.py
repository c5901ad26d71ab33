"""Conversion between raw fields and memories, shared by all formats."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from hooks.contract.blocks import find_alike
from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.domain.validation import describe_faults
from worker.text.defusing import CONTEXTUAL_TITLE, PINNED_TITLE
from worker.text.invisible import is_blank
from worker.text.masking import mask_secrets

MAX_CONTENT_CHARS = 20_000
BLANK = "content: must not be blank"
REST_SKIPPED = "the rest of the file was skipped"
INJECTED_BLOCK = "content: contains an injected block; remove the block first"

_ALIASES = {"text": "content", "memory": "content", "tags": "entities"}


@dataclass(frozen=True, slots=True)
class Remark:
    """What became of a part of a file; lines are numbered from 1, and 0 means the whole file."""

    line: int
    reason: str


class Rejected(Remark):
    """An entry that was not imported because something about it is wrong or unclear."""

    __slots__ = ()


class LeftOut(Remark):
    """Something that was left out on purpose: no memory, or one that no longer holds where it comes from."""

    __slots__ = ()


class Noted(Remark):
    """Something about an imported entry that was changed or not kept."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Fields:
    """An entry as found by a reader; lines are numbered from 1."""

    line: int
    values: dict[str, Any]


Found = Fields | Remark


_TEXTS = ("content", "context", "source")


def memory_from(raw: Mapping[str, Any], now: datetime | None, *, mask: bool = False) -> Memory:
    """Create a memory from raw fields; raise `MemoryRejected` if a field is invalid.

    A missing id is derived from scope and content. A missing `created_at` becomes `now`, or stays unset without it.
    """
    fields = {_ALIASES.get(key, key): value for key, value in raw.items()}
    scope = fields.get("scope")
    if isinstance(scope, dict) and "channel" in scope:
        fields.setdefault("channel", scope["channel"])
        fields["scope"] = {key: value for key, value in scope.items() if key != "channel"}
    if mask:
        fields |= {name: mask_secrets(fields[name]) for name in _TEXTS if isinstance(fields.get(name), str)}
    if now is not None:
        fields.setdefault("created_at", now)
    fields.setdefault("id", derived_id(fields))
    return _checked(fields)


def changed(memory: Memory, changes: Mapping[str, Any]) -> Memory:
    """Return `memory` with some fields replaced; raise `MemoryRejected` for an invalid value.

    Cues belong to a text: with a new one, only those given with it are kept.
    """
    fresh = changes.get("content", memory.content) != memory.content
    return _checked({**memory.model_dump(), **({"cues": ()} if fresh else {}), **changes})


def _checked(fields: Mapping[str, Any]) -> Memory:
    try:
        memory = Memory.model_validate(fields)
    except ValidationError as error:
        raise MemoryRejected(describe_faults(error, "memory")) from error
    check_content(memory)
    return memory


def derived_id(fields: Mapping[str, Any]) -> str:
    """Return an id that is always the same for the same content, context and scope.

    So duplicates are stored once, and equal lines under different headings are two memories.
    """
    context = [fields["context"]] if fields.get("context") else []
    identity = json.dumps([fields.get("scope") or {}, fields.get("content"), *context], sort_keys=True, default=str)
    return "m" + hashlib.sha256(identity.encode("utf-8", "replace")).hexdigest()[:24]


def check_content(memory: Memory) -> None:
    """Raise `MemoryRejected` if the content cannot be stored."""
    if is_blank(memory.content):
        raise MemoryRejected(BLANK)
    if len(memory.content) > MAX_CONTENT_CHARS:
        raise MemoryRejected(f"content: longer than {MAX_CONTENT_CHARS} characters")
    if find_alike(memory.content) or memory.content.lstrip().startswith((PINNED_TITLE, CONTEXTUAL_TITLE)):
        raise MemoryRejected(INJECTED_BLOCK)


def split_names(value: Any) -> list[str]:
    """Return names from a list, a JSON list, or text separated by commas, semicolons or bars."""
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
