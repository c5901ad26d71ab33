"""How commands print: JSON for programs, tables and colours for people."""

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

PIPED_WIDTH = 120
"""Columns where the output is no terminal that could say how many it has."""

console = Console(highlight=False, width=None if sys.stdout.isatty() else PIPED_WIDTH)
errors = Console(stderr=True, highlight=False)


def print_json(value: Any) -> None:
    """One JSON document on standard output; ASCII, so that no terminal's encoding can break it."""
    sys.stdout.write(json.dumps(value, indent=2, default=str) + "\n")
    sys.stdout.flush()


def fail(message: str, *, as_json: bool) -> NoReturn:
    """Say what is wrong and what to do, and end with exit code 1."""
    if as_json:
        print_json({"error": message})
    else:
        errors.print(f"[red]error:[/red] {_escape(message)}")
    raise typer.Exit(1)


def table(title: str | None, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """A table with one row per entry; cells are printed as they are, never as markup."""
    drawn = Table(*columns, title=title, title_justify="left", show_edge=False, pad_edge=False)
    for row in rows:
        drawn.add_row(*(_escape("" if cell is None else str(cell)) for cell in row))
    return drawn


def show(drawn: Table) -> None:
    console.print(drawn)


def say(text: str) -> None:
    """Plain text for people."""
    console.print(_escape(text))


def show_verbatim(text: str) -> None:
    """Text that is to be copied: lines as they are, however long."""
    console.print(text, markup=False, soft_wrap=True)


def milliseconds(stages: Mapping[str, float]) -> str:
    """Stages as `embed 6 · search 2`."""
    return " · ".join(f"{name} {spent:.0f}" for name, spent in stages.items() if spent >= 0.5)


def scores(entry: Mapping[str, Any]) -> list[str]:
    """Score, cosine and BM25 of a memory as cells."""
    return ["" if entry[name] is None else f"{entry[name]:.2f}" for name in ("score", "cosine", "keyword")]


def summary(outcome: str, reason: str | None, engine: str, elapsed_ms: float, stages: Mapping[str, float]) -> str:
    """One line: what came of a request, by whom, and how long each stage took."""
    why = f" ({reason})" if reason else ""
    return f"{outcome}{why} by {engine} in {elapsed_ms:.0f} ms: {milliseconds(stages)}"


def _escape(text: str) -> str:
    return text.replace("[", "\\[")
