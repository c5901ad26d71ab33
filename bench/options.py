"""What was asked for on the command line."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Options:
    """`quick` measures little, to see that it works; `full` adds what takes minutes to prepare."""

    out: Path
    quick: bool = False
    full: bool = False
