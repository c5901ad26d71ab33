"""What was asked for on the command line."""

from dataclasses import dataclass
from pathlib import Path

WORLDS = Path("prompts/cases")
"""Labelled worlds that no threshold was measured on."""


@dataclass(frozen=True, slots=True)
class Options:
    """`quick` measures little, to see that it works; `full` adds what takes minutes to prepare.

    `worlds` is a folder of labelled worlds, for what is measured on them.
    """

    out: Path
    quick: bool = False
    full: bool = False
    worlds: Path = WORLDS
