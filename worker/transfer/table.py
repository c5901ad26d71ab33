"""Tables of memories with a header, separated by commas, semicolons, tabs or bars."""

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from worker.domain.memory import Memory

from .entries import BLANK, Fields, Found, Rejected, split_names, to_fields
from .text import TextLine, lines_of

DELIMITERS = ",;\t|"

COLUMNS = (
    *("id", "type", "content", "importance", "created_at", "occurred_at", "valid_until", "superseded_by"),
    *("superseded_at", "entities", "relations", "user", "agent", "project", "channel", "source", "version", "cues"),
)
"""Columns of exported tables, in order."""

_NAMES = {
    "content": ("text", "memory", "note", "fact", "body", "message", "description"),
    "type": ("kind", "category"),
    "created_at": ("created", "date", "timestamp", "time"),
    "importance": ("priority", "weight"),
    "entities": ("tags", "labels", "keywords", "names"),
    "user": ("user_id", "owner"),
    "agent": ("agent_id",),
    "project": ("project_id", "app_id"),
    "valid_until": ("expires", "expires_at", "expiration_date"),
    "occurred_at": ("happened_at", "event_date"),
}
_FIELD = {name: name for name in COLUMNS} | {other: name for name, others in _NAMES.items() for other in others}
_SCOPE = ("user", "agent", "project")
_LISTS = ("entities", "relations", "cues")
_NULL = "null"
"""Exported for an unknown `created_at`, so that an import does not set it to the current time."""


def read_table(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the rows of a table, ignoring unknown columns."""
    lines = lines_of(stream)
    first = next((line for line in lines if line.text.strip() and not line.text.startswith("sep=")), TextLine(1, ""))
    columns = header_fields(first.text)
    if "content" not in columns.values():
        yield Rejected(first.number, "the table needs a column named content, text, memory or note")
        return
    offset = first.number
    rows = csv.reader(_with_ends(lines), delimiter=delimiter_of(first.text))
    while True:
        start = offset + rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error:
            yield Rejected(start, "not a valid table row; check for an unclosed quote")
            continue
        if any(cell.strip() for cell in row):
            yield _found(start, row, columns)


def _with_ends(lines: Iterator[TextLine]) -> Iterator[str]:
    for line in lines:
        yield f"{_FAULT}{line.fault}\n" if line.fault else line.text + line.end


_FAULT = "\0fault: "


def _found(line: int, row: list[str], columns: Mapping[int, str]) -> Found:
    fault = next((cell.partition(_FAULT)[2] for cell in row if _FAULT in cell), None)
    if fault is not None:
        return Rejected(line, fault.partition("\n")[0])
    cells = {columns[place]: cell for place, cell in enumerate(row) if place in columns and cell.strip()}
    if "content" not in cells:
        return Rejected(line, BLANK)
    try:
        return Fields(line, _fields(cells))
    except ValueError as error:
        return Rejected(line, str(error))


def _fields(cells: dict[str, str]) -> dict[str, Any]:
    fields: dict[str, Any] = {key: cell for key, cell in cells.items() if key not in (*_SCOPE, *_LISTS)}
    if cells.get("created_at") == _NULL:
        fields["created_at"] = None
    if "type" in cells:
        fields["type"] = cells["type"].strip().lower()
    scope = {key: cells[key] for key in _SCOPE if key in cells}
    if scope:
        fields["scope"] = scope
    if "entities" in cells:
        fields["entities"] = split_names(cells["entities"])
    if "relations" in cells:
        fields["relations"] = _json("relations", cells["relations"])
    if "cues" in cells:
        listed = cells["cues"].lstrip().startswith("[")
        fields["cues"] = _json("cues", cells["cues"]) if listed else re.split(r"[|\n]", cells["cues"])
    return fields


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{name}: not valid JSON") from error


def delimiter_of(header: str) -> str:
    """Return the delimiter that gives the most known columns, then the most columns."""
    return max(DELIMITERS, key=lambda one: (len(_known(header, one)), header.count(one)))


def header_fields(header: str) -> dict[int, str]:
    """Return fields by column number; of two columns with the same meaning, the first is used."""
    return _known(header, delimiter_of(header))


def _known(header: str, delimiter: str) -> dict[int, str]:
    try:
        row = next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error:
        return {}
    found: dict[str, int] = {}
    for place, title in enumerate(row):
        field = _FIELD.get(title.strip().lower().replace(" ", "_"))
        if field is not None:
            found.setdefault(field, place)
    return {place: field for field, place in found.items()}


def table_head() -> str:
    """Return the header of an exported table."""
    return _written(COLUMNS)


def table_row(memory: Memory) -> str:
    """Return a memory as a row, including the line end."""
    fields = to_fields(memory)
    cells: dict[str, Any] = {**fields, **fields.get("scope", {})}
    if "created_at" in fields and fields["created_at"] is None:
        cells["created_at"] = _NULL
    for key in _LISTS:
        if key in cells:
            cells[key] = json.dumps(cells[key], ensure_ascii=False)
    return _written([cells.get(column, "") for column in COLUMNS])


def _written(row: Any) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(row)
    return line.getvalue()
