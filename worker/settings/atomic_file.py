"""Atomic file writes: readers see the old contents or the new, never a part."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: str | bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Replace the contents of `path`, creating missing folders; `durable` waits until the data is on disk.

    Raise `OSError` and keep the old file if that fails.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode("utf-8") if isinstance(data, str) else data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)  # exists only after an error
