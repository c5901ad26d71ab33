"""Free space of the disk that holds an embedded store."""

import shutil
from pathlib import Path

from worker.domain.errors import StoreFull

LEAST_FREE = 64 * 1024 * 1024
"""Bytes that must be free to open or change a store. The engine maps its files into memory and preallocates them: if
the disk is full when it touches them, the operating system kills the process."""


def check_space(folder: Path) -> None:
    """Raise `StoreFull` if the disk of `folder` is nearly full. Blocks."""
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        raise StoreFull(
            f"the disk of {folder} is full: {free >> 20} MiB are free, and changing the memory store needs "
            f"{LEAST_FREE >> 20}; free some space and try again"
        )
