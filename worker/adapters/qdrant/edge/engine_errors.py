"""The border to Qdrant Edge: its errors as ours."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from worker.domain.errors import StoreError

logger = structlog.get_logger()


@contextmanager
def vendor_errors(doing: str) -> Iterator[None]:
    """Raise errors of the engine or the disk as `StoreError`, without the engine's words.

    The engine raises bare `Exception`, `ValueError` and `OverflowError`. On damaged files its Rust code may panic
    with pyo3's `PanicException`, a `BaseException` that no module exports.
    """
    try:
        yield
    except BaseException as error:  # the type of a panic cannot be imported; other errors are re-raised
        from_vendor = type(error) in (Exception, ValueError, OverflowError) or isinstance(error, OSError)
        if not from_vendor and type(error).__name__ != "PanicException":
            raise
        logger.debug("store_engine_failed", doing=doing, error=str(error))
        reason = f": {error.strerror}" if isinstance(error, OSError) and error.strerror else ""
        raise StoreError(f"{doing}{reason}") from error
