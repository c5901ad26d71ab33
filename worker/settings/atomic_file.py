"""Replace a file in one step, so that a reader sees the old text or the new one and never a part."""

import os
import tempfile
from pathlib import Path


def write_atomically(path: Path, data: str | bytes, *, mode: int = 0o644, durable: bool = False) -> None:
    """Write `data` to `path` through a draft beside it; make missing folders.

    With `durable`, wait until the data has reached the disk. Raise `OSError` with the old file unchanged.
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
        draft.unlink(missing_ok=True)  # it is still there only after an error
