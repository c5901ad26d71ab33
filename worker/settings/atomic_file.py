"""Atomic file writes: readers see the old contents or the new, never a part."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from hooks.private_files import make_private_folder, private_file


def write_atomically(path: Path, data: str | bytes, *, mode: int = 0o600, durable: bool = False) -> None:
    """Replace the contents of `path`, creating missing folders; `durable` waits until the data is on disk.

    Raise `OSError` and keep the old file if that fails.
    """
    with replacing(path, mode=mode, durable=durable) as file:
        file.write(data.encode("utf-8") if isinstance(data, str) else data)


@contextmanager
def replacing(path: Path, *, mode: int = 0o600, durable: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that replaces `path` at the end of the block, unless it fails. Raise `OSError`."""
    make_private_folder(path.parent)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            if durable:
                file.flush()
                os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)  # exists only after an error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock for changes of `path`, across processes, so that none is lost. Raise `OSError`."""
    make_private_folder(path.parent)
    with os.fdopen(private_file(path.with_name(f".{path.name}.lock")), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
