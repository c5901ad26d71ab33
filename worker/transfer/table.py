"""Tables of memories with a header, separated by commas, semicolons, tabs or bars."""

import csv
import io
import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from worker.domain.memory import Memory

from .entries import BLANK, REST_SKIPPED, Fields, Found, Noted, Rejected
from .field_names import FIELDS, snake_case
from .fields import to_fields
from .text import TextLine, lines_of

DELIMITERS = ",;\t|"

COLUMNS = (
    *("id", "type", "content", "context", "importance", "created_at", "occurred_at", "valid_until", "superseded_by"),
    *("superseded_at", "entities", "relations", "user", "agent", "project", "channel", "source", "version", "cues"),
    *("evidence", "pinned"),
)
"""Columns of exported tables, in order."""

_COLUMNS_BEFORE = COLUMNS[:-1]
"""Columns of tables that were exported before memories could be pinned."""

MAX_ROW_CHARS = csv.field_size_limit()
"""Maximum length of a row, so that a quote without an end costs its own line only."""

MAX_UNCLOSED = 100
MAX_COLUMNS = 500

_JSON = ("entities", "relations", "cues", "evidence")
_NULL = "null"
"""Exported for an unknown `created_at`, so that an import does not set it to the current time."""

_FORMULA = re.compile(r"'*[=+\-@\t\r＝＋－＠]")
_ESCAPED = re.compile(r"'+[=+\-@\t\r＝＋－＠]")
"""Cells that a spreadsheet could take for a formula are exported after an apostrophe, which an import drops again."""

_FAULT = "\0fault: "


def read_table(stream: TextIO, name: str) -> Iterator[Found]:
    """Read the rows of a table, and report the columns that are not known."""
    lines = lines_of(stream)
    first = next((line for line in lines if line.text.strip() and not line.text.startswith("sep=")), TextLine(1, ""))
    columns = header_fields(first.text)
    if not any(FIELDS.get(column) == "content" for column in columns.values()):
        yield Rejected(first.number, "the table needs a column named content, text, memory or note")
        return
    if len(columns) > MAX_COLUMNS:
        yield Rejected(first.number, f"the table has more than {MAX_COLUMNS} columns")
        return
    unknown = ", ".join(column for column in columns.values() if column and column not in FIELDS)
    if unknown:
        yield Noted(first.number, f"columns not kept: {unknown}")
    ours = tuple(columns.values()) in (COLUMNS, _COLUMNS_BEFORE)
    yield from _Rows(lines, delimiter_of(first.text), columns, ours).found()


class _Rows:
    """The rows below a header. Lines that a quote without an end has swallowed are read again."""

    def __init__(self, lines: Iterator[TextLine], delimiter: str, columns: Mapping[int, str], ours: bool) -> None:
        self._lines = lines
        self._again: deque[TextLine] = deque()
        self._delimiter = delimiter
        self._columns = columns
        self._ours = ours
        self._row: list[TextLine] = []
        self._cut = False
        self._unclosed = 0

    def found(self) -> Iterator[Found]:
        while True:
            self._row, self._cut = [], False
            try:
                cells = next(csv.reader(self._texts(), delimiter=self._delimiter))
            except StopIteration:
                return
            except csv.Error:
                self._cut = True
            if self._cut:
                self._again.extendleft(reversed(self._row[1:]))
                yield Rejected(self._row[0].number, "not a valid table row; check for an unclosed quote")
                self._unclosed += 1
                if self._unclosed == MAX_UNCLOSED:
                    yield Rejected(self._row[0].number, f"{MAX_UNCLOSED} such rows; {REST_SKIPPED}")
                    return
            elif any(cell.strip() for cell in cells):
                yield self._entry(cells)

    def _texts(self) -> Iterator[str]:
        """Yield the lines of one row. Being asked for more than there may be means that a quote is not closed."""
        size = 0
        while line := self._next_line():
            self._row.append(line)
            size += len(line.text) + 1
            if size > MAX_ROW_CHARS and len(self._row) > 1:
                break
            yield f"{_FAULT}{line.fault}\n" if line.fault else line.text + line.end
        self._cut = bool(self._row)

    def _next_line(self) -> TextLine | None:
        return self._again.popleft() if self._again else next(self._lines, None)

    def _entry(self, row: list[str]) -> Found:
        line = self._row[0].number
        fault = next((cell.partition(_FAULT)[2] for cell in row if _FAULT in cell), None)
        if fault is not None:
            return Rejected(line, fault.partition("\n")[0])
        cells = {
            self._columns[place]: cell.removeprefix("'") if self._ours and _ESCAPED.match(cell) else cell
            for place, cell in enumerate(row)
            if cell.strip() and self._columns.get(place) in FIELDS
        }
        if not any(FIELDS[column] == "content" for column in cells):
            return Rejected(line, BLANK)
        return Fields(line, _values(cells))


def _values(cells: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = dict(cells)
    if values.get("created_at") == _NULL:
        values["created_at"] = None
    for column in _JSON:
        if values.get(column, "").startswith(("[", "{")):
            values[column] = _json(values[column])
    return values


def _json(cell: str) -> Any:
    try:
        return json.loads(cell)
    except (ValueError, RecursionError):
        return cell


def delimiter_of(header: str) -> str:
    """Return the delimiter that gives the most known columns, then the most columns."""
    return max(DELIMITERS, key=lambda one: (len(_known(header, one)), header.count(one)))


def header_fields(header: str) -> dict[int, str]:
    """Return names by column number, in the form of `FIELDS`."""
    names: dict[int, str] = {}
    for place, title in enumerate(_titles(header, delimiter_of(header))):
        name = snake_case(title)
        names[place] = "" if name in names.values() else name
    return names


def _known(header: str, delimiter: str) -> set[str]:
    return {FIELDS[name] for title in _titles(header, delimiter) if (name := snake_case(title)) in FIELDS}


def _titles(header: str, delimiter: str) -> list[str]:
    try:
        return next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error:
        return []


def table_head() -> str:
    """Return the header of an exported table."""
    return _written(COLUMNS)


def table_row(memory: Memory) -> str:
    """Return a memory as a row, including the line end."""
    fields = to_fields(memory)
    cells: dict[str, Any] = {**fields, **fields.get("scope", {})}
    if "created_at" in fields and fields["created_at"] is None:
        cells["created_at"] = _NULL
    for key in _JSON:
        if key in cells:
            cells[key] = json.dumps(cells[key], ensure_ascii=False)
    return _written([_safe(cells.get(column, "")) for column in COLUMNS])


def _safe(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def _written(row: Any) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(row)
    return line.getvalue()
