"""File formats: detection, and reading of memories one by one."""

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TextIO

from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory

from .entries import Found, Rejected, memory_from
from .json_array import read_json_array
from .jsonl import object_in, read_jsonl
from .markdown import AGENT_FILES, read_agent_memory, read_markdown
from .mem0 import from_mem0, is_mem0
from .table import header_fields, read_table
from .text import opened

PEEK_CHARS = 1 << 16


class Format(StrEnum):
    """A file format; `claude` means memory files of coding agents, `mem0` is JSON or JSON Lines."""

    JSONL = "jsonl"
    JSON = "json"
    MARKDOWN = "markdown"
    MEM0 = "mem0"
    CLAUDE = "claude"
    CSV = "csv"


SUFFIXES = {
    ".jsonl": Format.JSONL,
    ".ndjson": Format.JSONL,
    ".md": Format.MARKDOWN,
    ".markdown": Format.MARKDOWN,
    ".csv": Format.CSV,
    ".tsv": Format.CSV,
}
"""Formats by file extension; others, including `.json`, are detected from the contents."""

READ_IN_FOLDERS = (*SUFFIXES, ".json")

_READERS: dict[Format, Callable[[TextIO, str], Iterator[Found]]] = {
    Format.JSONL: read_jsonl,
    Format.JSON: read_json_array,
    Format.MARKDOWN: read_markdown,
    Format.CLAUDE: read_agent_memory,
    Format.CSV: read_table,
}


class Source:
    """A file to read. `done` and `size` are in bytes."""

    def __init__(self, path: Path, name: str, wanted: Format | None = None) -> None:
        self.path = path
        self.name = name
        self.size = path.stat().st_size
        self.done = 0
        self._wanted = wanted

    def entries(self, *, mask: bool = False, now: datetime | None = None) -> Iterator[Memory | Rejected]:
        """Read memories and rejected entries in order; raise `OSError`, or `MemoryRejected` for an unknown format.

        A memory without a date gets `now` as `created_at`, or leaves it unset without `now`.
        """
        kind = self.format()
        with opened(self.path) as (stream, counted):
            for entry in _READERS[kind](stream, self.name):
                yield entry if isinstance(entry, Rejected) else _memory(entry.line, entry.values, now, mask)
                self.done = counted.done
        self.done = self.size

    def format(self) -> Format:
        """Return the given or detected format; raise `OSError`, or `MemoryRejected` if it is unknown."""
        if self._wanted not in (None, Format.MEM0):
            return self._wanted
        known = SUFFIXES.get(self.path.suffix.lower())
        if known is Format.MARKDOWN and self.path.name.lower() in AGENT_FILES:
            return Format.CLAUDE
        return known or _format_inside(self.path)


def _memory(line: int, values: dict[str, object], now: datetime | None, mask: bool) -> Memory | Rejected:
    try:
        return memory_from(from_mem0(values) if is_mem0(values) else values, now, mask=mask)
    except MemoryRejected as error:
        return Rejected(line, str(error))


def _format_inside(path: Path) -> Format:
    with opened(path) as (stream, _):
        start = stream.read(PEEK_CHARS).lstrip()
    if start.startswith("["):
        return Format.JSON
    first = start.partition("\n")[0]
    if start.startswith("{"):
        return Format.JSONL if _is_entry(first) else Format.JSON
    if len(columns := header_fields(first)) > 1 and "content" in columns.values():
        return Format.CSV
    raise MemoryRejected(f"{path.name}: unknown file format; use --format")


def _is_entry(line: str) -> bool:
    try:
        return bool({"content", "text", "memory"} & object_in(line).keys())
    except MemoryRejected:
        return False


def sources(paths: list[Path], wanted: Format | None = None) -> list[Source]:
    """Return the given files, and all files of known types in the given folders, except hidden ones.

    Raise `OSError` if a path does not exist.
    """
    found: dict[Path, Source] = {}
    for path in paths:
        if path.is_dir():
            for file in _inside(path):
                found.setdefault(file.resolve(), Source(file, str(file.relative_to(path)), wanted))
        else:
            found.setdefault(path.resolve(), Source(path, path.name, wanted))
    return list(found.values())


def _inside(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and Path(name).suffix.lower() in READ_IN_FOLDERS:
                yield Path(where) / name
