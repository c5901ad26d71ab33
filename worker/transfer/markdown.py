"""Markdown notes, plain texts and memory files of coding agents: every list item and paragraph is a memory.

Headings are its context, except headings that name a type ("Decisions") or a date. Front matter applies to the whole
file.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, TextIO

from worker.domain.memory import MemoryType
from worker.text.excerpts import head

from .dates import read_day
from .entries import Fields, Found, LeftOut, Rejected, Remark, split_names
from .field_names import FIELDS, TYPE_NAMES, snake_case
from .front_matter import FrontMatter
from .markdown_blocks import COMMENT, Block, BlockKind, parts_of
from .markdown_export import exported_fields
from .text import lines_of

AGENT_FILES = frozenset(
    {"claude.md", "claude.local.md", "agents.md", "gemini.md", "memory.md", "copilot-instructions.md"}
)
AGENT_TYPES = {
    "user": MemoryType.IDENTITY,
    "feedback": MemoryType.PREFERENCE,
    "project": MemoryType.FACT,
    "reference": MemoryType.FACT,
}
"""Types of Claude Code's memory files, and the corresponding memory types."""

MAX_WHOLE_CHARS = 1000
"""Maximum length of an agent's memory file that becomes a single memory."""

MAX_CONTEXT_CHARS = 300

_DATED_TITLE = re.compile(r"[\[(]?(\d{4}-\d{2}-\d{2})(?:[ T]\d{2}:\d{2}(?::\d{2})?)?[\])]?[ \t]*[:–—|-]*[ \t]*")
_DATED_START = re.compile(r"(?:\[(\d{4}-\d{2}-\d{2})\][ \t]*[:–—-]?|(\d{4}-\d{2}-\d{2})[ \t]*[:–—-])[ \t]*(?=\S)")
_DATED_SENTENCE = re.compile(r"(\d{4}-\d{2}-\d{2})[ \t]+(?=\S)")
_DATED_END = re.compile(r"[ \t]*\((\d{4}-\d{2}-\d{2})\)$")
_CHECKBOX = re.compile(r"\[([ xX])\][ \t]+(?=\S)")
_POINTER = re.compile(r"\[[^\]]*\]\([^)\s]+\.md\)")
_IMPORT = re.compile(r"\s*(?:[-*+]\s+)?@[\w~./-]+\s*")
_NO_SUBJECT = frozenset({"log", "notes", "note", "journal", "diary", "entry", "daily", "daily log", "daily notes"})


@dataclass
class _Note:
    """Properties of all memories in one file."""

    name: str
    agent_file: bool
    fields: dict[str, Any] = field(default_factory=dict)
    title: str | None = None
    whole: bool = False


def read_markdown(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the memories of a file of notes, or of a plain text."""
    return _read(stream, _Note(name, agent_file=False))


def read_agent_memory(stream: TextIO, name: str) -> Iterator[Found]:
    """Read a coding agent's memory file, such as CLAUDE.md, skipping links and imports of other memory files.

    Memories are preferences unless the file specifies another type.
    """
    return _read(stream, _Note(name, agent_file=True, fields={"type": MemoryType.PREFERENCE.value}))


def _read(stream: TextIO, note: _Note) -> Iterator[Found]:
    dated = _DATED_TITLE.match(PurePath(note.name).stem)
    if dated and read_day(dated[1]):
        note.fields["created_at"] = dated[1]
    whole: list[Block] | None = None
    for part in parts_of(lines_of(stream)):
        if isinstance(part, Remark):
            yield part
        elif isinstance(part, FrontMatter):
            if part.fault:
                yield Rejected(part.line, part.fault)
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
        text = "\n".join(f"- {block.text}" if block.kind is BlockKind.ITEM else block.text for block in whole)
        context = {"context": note.title} if note.title else {}
        yield Fields(whole[0].line, {**note.fields, **context, "content": text, "source": note.name})


def _apply(front: FrontMatter, note: _Note) -> None:
    """Use the front matter for all memories of the file. How its values are read is decided later, as in any format."""
    more = front.values.get("metadata")
    values = {**(more if isinstance(more, dict) else {}), **front.values}
    values.pop("metadata", None)
    kind = str(values.get("type", "")).strip().lower()
    if kind in AGENT_TYPES:
        note.agent_file, note.whole = True, "description" in values or "name" in values
        values["type"] = AGENT_TYPES[kind].value
    title = next((values.pop(key) for key in ("title", "name") if isinstance(values.get(key), str)), None)
    note.title = head(" ".join(title.split()), MAX_CONTEXT_CHARS) if title else None
    if note.agent_file:
        values.pop("description", None)
    given = {snake_case(key): value for key, value in values.items() if value not in ("", "~", "null", None)}
    named = {FIELDS.get(key, key): value for key, value in given.items()}
    if "entities" in named:
        named["entities"] = split_names(named["entities"])
    note.fields |= {key: value for key, value in named.items() if key not in ("content", "context")}


def _entries(block: Block, note: _Note) -> Iterator[Found]:
    exported = next((found for comment in block.comments if (found := exported_fields(comment, block.text))), None)
    if exported is not None:
        placed = {"type": _placed(block.headings).kind or MemoryType.FACT.value}
        yield Fields(block.line, {**placed, **exported})
        return
    if block.comments:
        yield LeftOut(block.line, COMMENT)
    text = block.text
    if note.agent_file and block.kind is not BlockKind.CODE:
        if _POINTER.match(text):
            yield LeftOut(block.line, "a pointer to another file")
            return
        lines = text.split("\n")
        kept = [line for line in lines if not _IMPORT.fullmatch(line)]
        if len(kept) < len(lines):
            yield LeftOut(block.line, "an import of another file")
        text = "\n".join(kept)
    if text.strip():
        yield _entry(block, text, note)


def _entry(block: Block, text: str, note: _Note) -> Fields:
    place = _placed((note.title, *block.headings) if note.title else block.headings)
    own: dict[str, Any] = {"type": place.kind} if place.kind else {}
    if place.day:
        own["created_at"] = place.day
    if block.kind is not BlockKind.CODE:
        text = _own_values(text, own)
    topics = list(place.topics)
    if place.subject:
        text = f"{place.subject}: {text}"
    elif topics and _continues(block, text):
        text = f"{topics.pop()}:{chr(10) if block.kind is BlockKind.CODE else ' '}{text}"
    if topics:
        own["context"] = head(" / ".join(topics), MAX_CONTEXT_CHARS)
    return Fields(block.line, {**note.fields, **own, "content": text, "source": note.name})


def _own_values(text: str, own: dict[str, Any]) -> str:
    """Take checkbox and date from a text, and return the rest."""
    if box := _CHECKBOX.match(text):
        own["type"] = MemoryType.TODO.value if box[1] == " " else MemoryType.EVENT.value
        text = text[box.end() :] if box[1] == " " else f"Done: {text[box.end() :]}"
    started, ended = _DATED_START.match(text) or _dated_sentence(text), _DATED_END.search(text)
    if started and (day := next(filter(None, started.groups()))) and read_day(day):
        own["created_at"], text = day, text[started.end() :]
    elif ended and read_day(ended[1]) and text[: ended.start()].strip():
        own["created_at"], text = ended[1], text[: ended.start()]
    return text


def _dated_sentence(text: str) -> "re.Match[str] | None":
    """Match a date before a sentence, as in "2026-01-31 Moved to Berlin". In "2026-01-31 is late" it belongs to it."""
    found = _DATED_SENTENCE.match(text)
    return found if found and not text[found.end()].islower() and not text[found.end()].isdigit() else None


@dataclass(frozen=True, slots=True)
class _Place:
    """What the headings above a text say about it."""

    kind: str | None
    day: str | None
    subject: str | None
    topics: tuple[str, ...]


def _placed(headings: tuple[str, ...]) -> _Place:
    """Read headings. The nearest one without a date may name a type; a date's subject belongs to the text."""
    topics: list[str] = []
    kind = day = subject = None
    for title in headings:
        dated = _DATED_TITLE.match(title)
        if dated and read_day(dated[1]):
            day, rest = dated[1], title[dated.end() :].strip()
            subject = rest if rest and rest.lower() not in _NO_SUBJECT else None
        else:
            topics.append(title)
    if topics and (named := TYPE_NAMES.get(snake_case(topics[-1]))):
        kind = named.value
        topics.pop()
    # the outermost heading is usually the title of the file, so it is only used if there is no other
    return _Place(kind, day, subject, tuple(topics[1:] or topics))


def _continues(block: Block, text: str) -> bool:
    """Return whether a text says little without its heading: code, figures, or the rest of a sentence."""
    first = next((character for character in text if character.isalnum()), "")
    return block.kind is BlockKind.CODE or first.islower() or not any(map(str.isalpha, text))
