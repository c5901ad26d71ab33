"""Output of commands: JSON for programs, tables and colours on a terminal, and plain lines elsewhere."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib import import_module
from itertools import zip_longest
from typing import Any, NoReturn, TextIO

import typer

from worker.text.terminal import for_terminal

from .text_table import TextTable

GAP = "  "
"""Between the columns of a plain table."""


_wants_json: ContextVar[bool] = ContextVar("wants_json", default=False)


def choose_json(wanted: bool) -> bool:
    """Keep whether the command prints JSON; the callback of `--json`."""
    _wants_json.set(wanted)
    return wanted


def wants_json() -> bool:
    return _wants_json.get()


def printed_as_json(value: Any) -> bool:
    """Print `value` if the command prints JSON, and return whether it does."""
    if wants_json():
        print_json(value)
    return wants_json()


def answer(value: Any, text: str) -> None:
    """Print `value` as JSON or else `text`."""
    if not printed_as_json(value):
        say(text)


def print_json(value: Any) -> None:
    """Print a JSON document; ASCII only, so that no terminal encoding can break it."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")
    sys.stdout.flush()


def fail(message: str) -> NoReturn:
    """Print an error message and exit with code 1."""
    if not printed_as_json({"error": message}):
        _complain("error", "red", message)
    raise typer.Exit(1)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    _complain("warning", "yellow", message)


def note(text: str) -> None:
    """Print a line on standard error."""
    _complain("", "", text)


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[Any]], *, whole: int = 0) -> TextTable:
    """Return a table of anything; `whole` is the number of first columns that are never cut off."""
    cells = tuple(tuple("" if cell is None else str(cell) for cell in row) for row in rows)
    return TextTable(title, tuple(columns), cells, tuple(range(whole)))


def show(drawn: TextTable) -> None:
    if sys.stdout.isatty():
        _terminal().draw(drawn)
    else:
        _write(sys.stdout, "\n".join(_lines(drawn)))


def say(text: str) -> None:
    if sys.stdout.isatty():
        _terminal().say(text, wrap=True)
    else:
        _write(sys.stdout, text)


def show_verbatim(text: str) -> None:
    """Print text to copy, without wrapping long lines."""
    if sys.stdout.isatty():
        _terminal().say(text, wrap=False)
    else:
        _write(sys.stdout, text)


def rule(title: str = "") -> None:
    """Separate what follows, under a title."""
    if sys.stdout.isatty():
        _terminal().rule(title)
    else:
        _write(sys.stdout, f"\n{title}" if title else "")


def _lines(drawn: TextTable) -> Iterator[str]:
    """Yield a table as lines with columns of equal width, each entry on one line."""
    if drawn.title:
        yield drawn.title
    rows = [drawn.columns, *([" ".join(cell.split()) for cell in row] for row in drawn.rows)]
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    for row in rows:
        yield GAP.join(map(str.ljust, row, widths)).rstrip()


def _complain(kind: str, style: str, text: str) -> None:
    if not sys.stderr.isatty():
        _write(sys.stderr, f"{kind}: {text}" if kind else text)
    elif kind:
        _terminal().complain(kind, style, text)
    else:
        _terminal().note(text)


def _write(stream: TextIO, text: str) -> None:
    stream.write(for_terminal(text) + "\n")
    stream.flush()


def _terminal() -> Any:
    return import_module("worker.cli.terminal")


def milliseconds(stages: Mapping[str, float]) -> str:
    """Return stages as `embed 6 · search 2`."""
    return " · ".join(f"{name} {spent:.0f}" for name, spent in stages.items() if spent >= 0.5)


def timing(elapsed_ms: float, stages: Mapping[str, float]) -> str:
    """Return a duration as `9 ms: embed 6 · search 2`, without stages that took no time."""
    spent = milliseconds(stages)
    return f"{elapsed_ms:.0f} ms{': ' if spent else ''}{spent}"


def scores(entry: Mapping[str, Any]) -> list[str]:
    """Return score, cosine and BM25 of a memory as cells."""
    return ["" if entry[name] is None else f"{entry[name]:.2f}" for name in ("score", "cosine", "keyword")]


DECIDERS = {
    "llm": "the chat model",
    "decision": "the decision model",
    "judge": "the relevance model",
    "deterministic": "search scores",
}
"""Names of the values of `hooks.contract.Engine`, which is too slow to import here."""


def summary(outcome: str, reason: str | None, engine: str, elapsed_ms: float, stages: Mapping[str, float]) -> str:
    """Return one line with the result of a request, who decided it and how long it took."""
    decided = f" by {DECIDERS[engine]}" if engine in DECIDERS else ""
    return f"{outcome}{f' ({reason})' if reason else ''}{decided} in {timing(elapsed_ms, stages)}"
