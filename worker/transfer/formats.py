"""File formats: detection, and reading of memories one by one."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from stat import S_ISREG
from typing import TextIO

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory

from .entries import REST_SKIPPED, Fields, Found, LeftOut, Noted, Rejected, Remark
from .field_names import FIELDS, snake_case
from .folders import Folder, described
from .json_array import read_json_array
from .jsonl import object_in, read_jsonl
from .lenient import memories_of
from .markdown import AGENT_FILES, read_agent_memory, read_markdown
from .table import header_fields, read_table
from .text import opened

PEEK_CHARS = 1 << 16
MAX_ENTRIES = 1_000_000
"""Entries of one file; the rest is reported as not read."""

MAX_REASONS = 200
"""Different remarks of one file that are told apart."""


class Format(StrEnum):
    """A file format; `claude` means memory files of coding agents, `mem0` is JSON or JSON Lines."""

    JSONL = "jsonl"
    JSON = "json"
    MARKDOWN = "markdown"
    MEM0 = "mem0"
    CLAUDE = "claude"
    CSV = "csv"
    TEXT = "text"


SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".mdc": Format.CLAUDE,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
    ".txt": Format.TEXT,
    ".af": Format.JSON,
}
"""Formats by file extension; others, including `.json`, are detected from the contents."""

READ_IN_FOLDERS = frozenset((*SUFFIXES, ".json"))

_READERS: dict[Format, Callable[[TextIO, str], Iterator[Found]]] = {
    Format.JSONL: read_jsonl,
    Format.JSON: read_json_array,
    Format.MARKDOWN: read_markdown,
    Format.TEXT: read_markdown,
    Format.CLAUDE: read_agent_memory,
    Format.CSV: read_table,
}

_MAGIC = {
    b"SQLite format 3": "an SQLite database",
    b"%PDF": "a PDF",
    b"PK\x03\x04": "a ZIP archive or office document",
    b"\x1f\x8b": "a gzip archive",
    b"PAR1": "a Parquet file",
    b"\x89PNG": "an image",
    b"\x80\x04": "a pickle",
}
_FILLER = re.compile(r"lorem ipsum\b", re.IGNORECASE)
FILLER = "filler text"


class Source:
    """A file to read. `done` and `size` are in bytes."""

    def __init__(self, path: Path, name: str, wanted: Format | None = None) -> None:
        self.path = path
        self.name = name
        self.size = path.stat().st_size
        self.done = 0
        self._wanted = wanted

    def entries(self, *, mask: bool = False, now: datetime | None = None) -> Iterator[Memory | Remark]:
        """Read memories and remarks; raise `OSError`, or `MemoryRejected` for an unknown format.

        A memory without a date gets `now` as `created_at`, or leaves it unset without `now`. Rejected entries come in
        order; what was left out or not kept comes at the end, once for each reason.
        """
        kind = self.format()
        summary = _Summary()
        today = now or datetime.now(UTC)
        with opened(self.path) as (stream, counted):
            for count, found in enumerate(_READERS[kind](stream, self.name)):
                if count >= MAX_ENTRIES:
                    yield Rejected(found.line, f"more than {MAX_ENTRIES} entries; {REST_SKIPPED}")
                    break
                entries = memories_of(found, today, now, mask=mask) if isinstance(found, Fields) else [found]
                for entry in entries:
                    if isinstance(entry, LeftOut | Noted):
                        summary.add(entry)
                    elif isinstance(entry, Memory) and _FILLER.match(entry.content):
                        summary.add(LeftOut(found.line, FILLER))
                    else:
                        yield entry
                self.done = counted.done
        self.done = self.size
        yield from summary.remarks()

    def format(self) -> Format:
        """Return the given or detected format; raise `OSError`, or `MemoryRejected` if it is unknown."""
        if not S_ISREG(self.path.stat().st_mode):
            raise MemoryRejected(f"{self.path.name}: not a regular file")
        if self._wanted not in (None, Format.MEM0):
            return self._wanted
        known = SUFFIXES.get(self.path.suffix.lower())
        if known is Format.MARKDOWN and self.path.name.lower() in AGENT_FILES:
            return Format.CLAUDE
        return known or _format_inside(self.path)


@dataclass
class _Summary:
    """Remarks that many entries of a file may share: the first line and the number of each."""

    _found: dict[tuple[type[Remark], str], tuple[int, int]] = field(default_factory=dict)

    def add(self, remark: Remark) -> None:
        key = (type(remark), remark.reason)
        if key not in self._found and len(self._found) >= MAX_REASONS:
            key = (type(remark), "other remarks")
        line, count = self._found.get(key, (remark.line, 0))
        self._found[key] = (line, count + 1)

    def remarks(self) -> Iterator[Remark]:
        for (kind, reason), (line, count) in self._found.items():
            yield kind(line, f"{reason} ({count} times)" if count > 1 else reason)


def _format_inside(path: Path) -> Format:
    with path.open("rb") as file:
        magic = file.read(16)
    named = next((name for start, name in _MAGIC.items() if magic.startswith(start)), None)
    if named is not None:
        raise MemoryRejected(f"{path.name}: {named}, which import does not read; export it as JSON, CSV or text")
    with opened(path) as (stream, _):
        start = stream.read(PEEK_CHARS).lstrip()
    if start.startswith("["):
        return Format.JSON
    first = start.partition("\n")[0]
    if start.startswith("{"):
        return Format.JSONL if _is_line(first, start) else Format.JSON
    columns = header_fields(first)
    if len(columns) > 1 and any(FIELDS.get(column) == "content" for column in columns.values()):
        return Format.CSV
    raise MemoryRejected(f"{path.name}: unknown file format; use --format")


def _is_line(first: str, start: str) -> bool:
    """Return whether the first line is an entry: it has a text, or another object follows it."""
    try:
        values = object_in(first)
    except MemoryRejected:
        return False
    names = {FIELDS.get(snake_case(key)) for key, value in values.items() if isinstance(value, str)}
    return "content" in names or "observations" in values or start.partition("\n")[2].lstrip().startswith("{")


@dataclass
class Selection:
    """The files to read, and remarks about those that are not read, by name."""

    files: list[Source]
    left_out: list[tuple[str, LeftOut]]
    folders: list[Path]


def sources(paths: list[Path], wanted: Format | None = None) -> Selection:
    """Return the given files, and the files of known types in the given folders.

    Raise `OSError` if a path does not exist.
    """
    found: dict[Path, Source] = {}
    left_out: list[tuple[str, LeftOut]] = []
    for path in paths:
        if not path.is_dir():
            found.setdefault(path.resolve(), Source(path, path.name, wanted))
            continue
        folder = Folder(path, READ_IN_FOLDERS).read()
        for file in folder.files:
            found.setdefault(file.resolve(), Source(file, str(file.relative_to(path)), wanted))
        left_out += [(name, LeftOut(0, reason)) for name, reason in folder.left_out]
        if folder.others:
            kinds = ", ".join(described(folder.others))
            left_out.append((str(path), LeftOut(0, f"files of other kinds are not read: {kinds}")))
    return Selection(list(found.values()), left_out, [path for path in paths if path.is_dir()])
