"""Command-line options."""

from dataclasses import dataclass
from pathlib import Path

WORLDS = Path("prompts/cases")
"""Labelled worlds that were not used to tune thresholds."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of a run. `quick` runs briefly; `full` adds cases that take minutes to prepare.

    `data` is a folder with data sets by other authors.
    """

    out: Path
    quick: bool = False
    full: bool = False
    worlds: Path = WORLDS
    data: Path | None = None
