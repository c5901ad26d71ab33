"""What an import prints and reports: counts, types, and everything that was not taken, with its place and reason."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from hooks.private_files import private_file
from worker.cli.output import note, printed_as_json, say, show_verbatim, wants_json
from worker.domain.memory import Memory
from worker.text.rendering import flatten
from worker.transfer.entries import LeftOut, Noted, Rejected, Remark
from worker.transfer.fields import to_fields

SHOWN = 20
"""Remarks of each kind that are printed; a report has all of them."""

MOST_MEMORIES = 1000
"""Memories in the JSON of a dry run."""

MAX_TEXT_CHARS = 300

_WORDS = {Rejected: "rejected", LeftOut: "left out", Noted: "changed"}
_KEYS = {Rejected: "rejected", LeftOut: "left_out", Noted: "notes"}


@dataclass
class ImportReport:
    """The result of an import; `all_remarks` receives every remark as a line of JSON."""

    counts: dict[str, int] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    remarks: dict[type[Remark], list[dict[str, Any]]] = field(default_factory=lambda: {kind: [] for kind in _KEYS})
    totals: dict[type[Remark], int] = field(default_factory=lambda: dict.fromkeys(_KEYS, 0))
    memories: list[dict[str, Any]] = field(default_factory=list)
    outdated: list[dict[str, Any]] = field(default_factory=list)
    gone: list[dict[str, Any]] = field(default_factory=list)
    all_remarks: TextIO | None = None

    def add(self, counts: Mapping[str, int]) -> None:
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count

    def take(self, memory: Memory) -> None:
        self.types[memory.type.value] = self.types.get(memory.type.value, 0) + 1

    def preview(self, name: str, memory: Memory) -> None:
        """Show a memory as it would be stored."""
        if not wants_json():
            show_verbatim(previewed(memory))
        elif len(self.memories) < MOST_MEMORIES:
            self.memories.append({"file": name, **to_fields(memory)})

    def remark(self, name: str, remark: Remark) -> None:
        kind = type(remark)
        line = {"file": name, "line": remark.line, "reason": remark.reason}
        self.totals[kind] += 1
        if len(self.remarks[kind]) < SHOWN:
            self.remarks[kind].append(line)
        if self.all_remarks is not None:
            more = {} if kind is Rejected else {"kind": _KEYS[kind]}
            self.all_remarks.write(json.dumps({**line, **more}, ensure_ascii=False) + "\n")

    @property
    def failed(self) -> bool:
        """Return whether something was rejected, or nothing could be read at all."""
        return bool(self.totals[Rejected]) or not self.types

    def print(self, report: Path | None, *, dry_run: bool) -> None:
        if printed_as_json(self._as_json(dry_run=dry_run)):
            return
        say(self.summary())
        if self.types:
            say("types: " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.types.items()))
        for kind, word in _WORDS.items():
            self._print_remarks(kind, word, report)
        for entry in self.outdated:
            say(f"{entry['file']}: now outdated, because its line was changed or removed: {entry['text']}")
        for entry in self.gone:
            say(f"{entry['file']}: still current, but no longer in the file: {entry['text']}")
        if self.gone:
            say("import again with --outdated to mark these as outdated")

    def _as_json(self, *, dry_run: bool) -> dict[str, Any]:
        remarks = {_KEYS[kind]: found for kind, found in self.remarks.items()}
        totals = {"refused": self.totals[Rejected], "omitted": self.totals[LeftOut], "changed": self.totals[Noted]}
        more = {"memories": self.memories} if dry_run else {"outdated": self.outdated, "gone": self.gone}
        return {**self.counts, "types": self.types, **totals, **remarks, **more}

    def summary(self) -> str:
        """Return the counts as one line."""
        done = [f"{count} {name.replace('_', ' ')}" for name, count in self.counts.items() if count]
        totals = [f"{self.totals[kind]} {_WORDS[kind]}" for kind in (LeftOut, Rejected) if self.totals[kind]]
        said = ", ".join([*done, *totals])
        return said if self.types else ", ".join(filter(None, ["no memories found", *totals]))

    def _print_remarks(self, kind: type[Remark], word: str, report: Path | None) -> None:
        prefix = "" if kind is Rejected else f"{word}: "
        for entry in self.remarks[kind]:
            where = f"{entry['file']}, line {entry['line']}" if entry["line"] else entry["file"]
            note(f"{prefix}{where}: {entry['reason']}")
        if more := self.totals[kind] - len(self.remarks[kind]):
            note(f"and {more} more: {report or 'see --rejected'}")


def previewed(memory: Memory) -> str:
    """Return a memory as one line: its type, day, scope and text."""
    scope = [f"{name} {value}" for name, value in memory.scope if value is not None]
    day = f"{memory.created_at:%Y-%m-%d}" if memory.created_at else "undated"
    place = [f"[{memory.context}]"] if memory.context else []
    text = flatten(memory.content, MAX_TEXT_CHARS)
    return " · ".join([memory.type.value.replace("_", " "), day, ", ".join(scope) or "everybody", *place, text])


@contextmanager
def reporting(path: Path | None) -> Iterator[ImportReport]:
    """Yield a report that writes every remark to the file, if there is one. Raise `OSError`."""
    if path is None:
        yield ImportReport()
        return
    with os.fdopen(private_file(path), "w", buffering=1, encoding="utf-8") as stream:
        yield ImportReport(all_remarks=stream)
