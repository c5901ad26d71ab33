"""The memory of the process."""

import ctypes
import gc
from collections.abc import Iterator
from contextlib import contextmanager

M_MMAP_THRESHOLD, M_ARENA_MAX = -3, -8
"""The parameters' numbers in glibc's `malloc.h`."""

ARENAS = 2
"""Heaps that threads share; by default up to eight per core, each of which keeps what is freed in it."""

LARGE = 1 << 20
"""Bytes of a block that is given back to the system as soon as it is freed."""


def give_back_freed_memory() -> None:
    """Let the C library give freed memory back to the system.

    Without this, glibc keeps freed blocks of up to 32 MB once such blocks were freed: after a few large batches, the
    embedder holds three times what it needs. Other C libraries give it back anyway, or have no such function.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, LARGE)
        mallopt(M_ARENA_MAX, ARENAS)


@contextmanager
def no_collections() -> Iterator[None]:
    """Collect no garbage in the block, and never look at what it leaves: a start imports and opens what stays.

    Each collection would walk all of it: they take a fifth of the time that importing LiteLLM takes. Later, a full one
    would stop every request for over a second.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if collects:
            gc.enable()
