"""Files that the engine maps into memory."""

import ctypes
from collections.abc import Iterator
from pathlib import Path

MADV_DONTNEED = 4
"""The number of the advice in Linux' `mman.h`."""

MAPPINGS = Path("/proc/self/maps")
SHARED = "s"


def release_pages(folder: Path) -> None:
    """Take the pages of mapped files under `folder` out of this process; what is used comes back from the file.

    The engine touches every page of its files as it opens them, although most are empty room for more memories: some
    100 MB for a small store. Systems without `/proc` keep them.
    """
    madvise = getattr(ctypes.CDLL(None), "madvise", None)
    if madvise is None:
        return
    for start, length in _shared_mappings(folder.resolve()):
        madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), MADV_DONTNEED)


def _shared_mappings(folder: Path) -> Iterator[tuple[int, int]]:
    """Yield start and length of each mapping of a file under `folder` whose changes are those of the file.

    A private mapping would lose its changes. The format is described in the manual page proc_pid_maps(5).
    """
    try:
        lines = MAPPINGS.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return
    prefix = f"{folder}/"
    for line in lines:
        if prefix not in line:  # hundreds of lines are of libraries
            continue
        span, permissions, *_, path = line.split(maxsplit=5)
        if permissions.endswith(SHARED) and path.startswith(prefix):
            start, end = (int(address, 16) for address in span.split("-"))
            yield start, end - start
