"""Markdown notes and memory files of coding agents: every list item and paragraph is a memory.

Headings are its topic and are prepended to the text, except headings that name a type ("Decisions") or a date. Front
matter applies to the whole file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import PurePath
from typing import Any, TextIO

from worker.domain.memory import Memory, MemoryType

from .entries import Fields, Found, Rejected, split_names
from .markdown_blocks import Block, FrontMatter, parts_of
from .text import lines_of

AGENT_FILES = frozenset({"claude.md", "claude.local.md", "agents.md", "gemini.md", "memory.md"})
AGENT_TYPES = {
    "user": MemoryType.IDENTITY,
    "feedback": MemoryType.PREFERENCE,
    "project": MemoryType.FACT,
    "reference": MemoryType.FACT,
}
"""Types of Claude Code's memory files, and the corresponding memory types."""

MAX_WHOLE_CHARS = 1000
"""Maximum length of an agent's memory file that becomes a single memory."""

_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T]\d{2}:\d{2}(?::\d{2})?)?")
_DATED_START = re.compile(r"\[?(\d{4}-\d{2}-\d{2})\]?(?:[ \t]*[:–—-][ \t]*|[ \t]+)(?=\S)")
_DATED_END = re.compile(r"[ \t]*\((\d{4}-\d{2}-\d{2})\)$")
_CHECKBOX = re.compile(r"\[([ xX])\][ \t]+")
_POINTER = re.compile(r"\[[^\]]*\]\([^)\s]+\.md\)")
_IMPORT = re.compile(r"@[\w~./-]+$")
_LETTERS = re.compile(r"[^a-z]+")

_TYPE_TITLES = {kind.value: kind for kind in MemoryType} | {
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
_PLURALS = {kind: title for title, kind in _TYPE_TITLES.items()}
_SCOPE = ("user", "agent", "project")
_SAME = {"date": "created_at", "created": "created_at", "expires": "valid_until", "tags": "entities"}
_KEPT = ("type", "created_at", "occurred_at", "valid_until", "importance", "channel", "entities", *_SCOPE)


@dataclass
class _Note:
    """Properties of all memories in one file."""

    name: str
    agent_file: bool
    fields: dict[str, Any] = field(default_factory=dict)
    whole: bool = False


def read_markdown(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the memories of a file of notes."""
    return _read(stream, _Note(name, agent_file=False))


def read_agent_memory(stream: TextIO, name: str) -> Iterator[Found]:
    """Read a coding agent's memory file, such as CLAUDE.md, skipping links and imports of other memory files.

    Memories are preferences unless the file specifies another type.
    """
    return _read(stream, _Note(name, agent_file=True, fields={"type": MemoryType.PREFERENCE.value}))


def _read(stream: TextIO, note: _Note) -> Iterator[Found]:
    if dated := _DATE.match(PurePath(note.name).stem):
        note.fields["created_at"] = dated[1]
    whole: list[Block] | None = None
    for part in parts_of(lines_of(stream)):
        if isinstance(part, Rejected):
            yield part
        elif isinstance(part, FrontMatter):
            _apply(part, note)
            whole = [] if note.whole else None
        elif whole is None:
            yield from _entries(part, note)
        else:
            whole.append(part)
            if sum(len(block.text) for block in whole) > MAX_WHOLE_CHARS:
                yield from (found for block in whole for found in _entries(block, note))
                whole = None
    if whole:
        text = "\n".join(f"- {block.text}" if block.item else block.text for block in whole)
        yield _entry(whole[0].line, text, note, {})


def _apply(front: FrontMatter, note: _Note) -> None:
    more = front.values.get("metadata")
    values = {**(more if isinstance(more, dict) else {}), **front.values}
    kind = str(values.get("type", "")).strip().lower()
    named = {_SAME.get(key, key): value for key, value in values.items() if value not in (None, "")}
    fields = {key: _plain(named[key]) for key in _KEPT if key in named}
    fields.pop("type", None)
    if kind in AGENT_TYPES:
        note.agent_file, note.whole = True, "description" in values or "name" in values
        fields["type"] = AGENT_TYPES[kind].value
    elif kind in _TYPE_TITLES:
        fields["type"] = _TYPE_TITLES[kind].value
    if "entities" in fields:
        fields["entities"] = split_names(fields["entities"])
    note.fields |= fields


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date | datetime) else value


def _entries(block: Block, note: _Note) -> Iterator[Found]:
    if note.agent_file and (_POINTER.match(block.text) or _IMPORT.match(block.text)):
        return
    text, own = block.text, dict[str, Any]()
    if box := _CHECKBOX.match(text):
        own["type"] = MemoryType.TODO.value if box[1] == " " else MemoryType.EVENT.value
        text = text[box.end() :] if box[1] == " " else f"Done: {text[box.end() :]}"
    topics: list[str] = []
    for title in block.headings:
        key = _LETTERS.sub("_", title.lower()).strip("_")
        if key in _TYPE_TITLES:
            own.setdefault("type", _TYPE_TITLES[key].value)
        elif dated := _DATE.match(title):
            own["created_at"] = dated[1]
        else:
            topics.append(title)
    if dated := _DATED_START.match(text):
        own["created_at"], text = dated[1], text[dated.end() :]
    elif dated := _DATED_END.search(text):
        own["created_at"], text = dated[1], text[: dated.start()]
    yield _entry(block.line, _with_topic(text, topics), note, own)


def _with_topic(text: str, topics: list[str]) -> str:
    # the outermost heading is usually the title of the file, so it is only used if there is no other
    said = topics[1:] or topics
    return f"{' / '.join(said)}: {text}" if said else text


def _entry(line: int, text: str, note: _Note, own: dict[str, Any]) -> Fields:
    fields = {**note.fields, **own, "content": text, "source": note.name}
    scope = {key: str(fields.pop(key)) for key in _SCOPE if key in fields}
    return Fields(line, {**fields, "scope": scope} if scope else fields)


def type_heading(kind: MemoryType) -> str:
    """Return the heading for memories of a type."""
    return f"## {_PLURALS[kind].replace('_', ' ').capitalize()}\n\n"


def markdown_item(memory: Memory) -> str:
    """Return a memory as a list item with its text and date; ids, owners and relations are lost."""
    text = "\n  ".join(line.strip() for line in memory.content.strip().splitlines() if line.strip())
    dated = f" ({memory.created_at.astimezone(UTC):%Y-%m-%d})" if memory.created_at else ""
    return f"- {text}{dated}\n"
