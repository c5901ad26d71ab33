"""The tables that commands print."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table with one row per entry. The columns at `whole` are never cut off, because people copy from them."""

    title: str | None
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    whole: tuple[int, ...] = ()
