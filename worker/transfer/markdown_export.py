"""Memories as Markdown lists. A comment after each item keeps what the text does not say, so that nothing is lost."""

import json
import re
from datetime import UTC
from typing import Any

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory, MemoryType

from .field_names import TYPE_TITLES
from .fields import to_fields
from .jsonl import object_in
from .markdown_blocks import Block, parts_of
from .text import TextLine

_MARK = "meeseeks "
_SPECIAL = re.compile(r"([!-/:-@\[-`{-~])")
"""ASCII punctuation, which Markdown allows to escape."""

_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "`": "\\u0060", "--": "\\u002d\\u002d"}


def type_heading(kind: MemoryType) -> str:
    """Return the heading for memories of a type."""
    return f"## {TYPE_TITLES[kind]}\n\n"


def markdown_item(memory: Memory) -> str:
    """Return a memory as a list item: its text and day, and a comment with its other fields.

    A text that Markdown would change is escaped, and the comment has it as it is.
    """
    values = to_fields(memory)
    values.pop("type", None)
    content = values.pop("content")
    plain = "\n".join(line.strip() for line in re.split(r"[\r\n]+", content) if line.strip())
    if plain == content:
        item = _item(plain, memory, values)
        if _shown(item) == plain + _day(memory):
            return item
    return _item(_escaped(content), memory, {**values, "content": content})


def exported_fields(comment: str, text: str) -> dict[str, Any] | None:
    """Return the fields of an exported item, or `None` if the comment is of another kind.

    A text that was edited since is taken as it is now.
    """
    if not comment.startswith(_MARK):
        return None
    try:
        values = object_in(comment.removeprefix(_MARK))
    except MemoryRejected:
        return None
    created = values.get("created_at")
    shown = text.removesuffix(f" ({created[:10]})") if isinstance(created, str) else text
    content = values.get("content")
    if not isinstance(content, str):
        return {**values, "content": shown}
    if " ".join(_escaped(content).split()) == " ".join(shown.split()):
        return values
    return {**values, "content": re.sub(rf"\\{_SPECIAL.pattern}", r"\1", shown)}


def _item(text: str, memory: Memory, values: dict[str, Any]) -> str:
    written = json.dumps(values, ensure_ascii=False)
    for unsafe, safe in _UNSAFE.items():
        written = written.replace(unsafe, safe)
    indented = text.replace("\n", "\n  ")
    return f"- {indented}{_day(memory)} <!-- {_MARK}{written} -->\n"


def _day(memory: Memory) -> str:
    return f" ({memory.created_at.astimezone(UTC):%Y-%m-%d})" if memory.created_at else ""


def _escaped(content: str) -> str:
    """Return the words of a text on one line, so that each character stands for itself."""
    return _SPECIAL.sub(r"\\\1", " ".join(content.split()))


def _shown(item: str) -> str | None:
    """Return the text of an item as it is read back, or `None` if it is not one item."""
    parts = list(parts_of(TextLine(number, line) for number, line in enumerate(item.splitlines(), 1)))
    return parts[0].text if len(parts) == 1 and isinstance(parts[0], Block) and parts[0].comments else None
