"""Output of commands: JSON for programs, tables and colours for people; `--json` of the command decides."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from worker.text.terminal import for_terminal

PIPED_WIDTH = 120
"""Columns of output that does not go to a terminal."""


class TerminalConsole(Console):
    """The border to the terminal: whatever is printed, no text in it reaches the terminal as a control sequence."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=for_terminal(segment.text))


console = TerminalConsole(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
errors = TerminalConsole(stderr=True, highlight=False)

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
        errors.print(f"[red]error:[/red] {_escape(message)}")
    raise typer.Exit(1)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    errors.print(f"[yellow]warning:[/yellow] {_escape(message)}")


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Return a table with one row per entry; cells are never read as markup."""
    drawn = Table(*columns, title=title, title_justify="left", show_edge=False, pad_edge=False)
    for row in rows:
        drawn.add_row(*(_escape("" if cell is None else str(cell)) for cell in row))
    return drawn


def show(drawn: Table) -> None:
    console.print(drawn)


def say(text: str) -> None:
    console.print(_escape(text))


def show_verbatim(text: str) -> None:
    """Print text to copy, without wrapping long lines."""
    console.print(text, markup=False, soft_wrap=True)


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


def summary(outcome: str, reason: str | None, engine: str, elapsed_ms: float, stages: Mapping[str, float]) -> str:
    """Return one line with the result of a request, who decided it and how long it took."""
    return f"{outcome}{f' ({reason})' if reason else ''} by {engine} in {timing(elapsed_ms, stages)}"


def _escape(text: str) -> str:
    return text.replace("[", "\\[")
