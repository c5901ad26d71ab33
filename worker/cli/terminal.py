"""Colours and tables for a terminal. Loaded only where one is there, because rich is slow to load."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from worker.text.terminal import for_terminal

from .text_table import TextTable


class TerminalConsole(Console):
    """The border to the terminal: whatever is printed, no text in it reaches the terminal as a control sequence."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=for_terminal(segment.text))


console = TerminalConsole(highlight=False, emoji=False)
errors = TerminalConsole(stderr=True, highlight=False, emoji=False)


def say(text: str, *, wrap: bool) -> None:
    console.print(text, markup=False, soft_wrap=not wrap)


def complain(kind: str, style: str, text: str) -> None:
    """Print a message on standard error behind its kind in colour."""
    errors.print(f"[{style}]{kind}:[/{style}]", end=" ")
    errors.print(text, markup=False)


def note(text: str) -> None:
    errors.print(text, markup=False)


def rule(title: str) -> None:
    console.rule(escaped(title), align="left", style="dim")


def draw(table: TextTable) -> None:
    """Draw a table; cells are never read as markup, and columns to copy from are never cut off."""
    title = escaped(table.title) if table.title else None
    columns = [escaped(column) for column in table.columns]
    drawn = Table(*columns, title=title, title_justify="left", show_edge=False, pad_edge=False)
    for row in table.rows:
        drawn.add_row(*map(escaped, row))
    for place in table.whole:
        drawn.columns[place].no_wrap = True
        drawn.columns[place].min_width = max((len(row[place]) for row in table.rows), default=0)
    console.print(drawn)


def escaped(text: str) -> str:
    return text.replace("[", "\\[")
