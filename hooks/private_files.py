"""Folders and files that only their owner can read."""

import os
from pathlib import Path


def make_private_folder(folder: Path) -> None:
    """Create a folder, and those above it that are missing, for its owner only. Raise `OSError`."""
    for path in reversed((folder, *folder.parents)):
        if not path.is_dir():
            path.mkdir(mode=0o700, exist_ok=True)


def private_file(path: Path) -> int:
    """Open a file that is emptied, or created for its owner only; return its descriptor. Raise `OSError`."""
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
