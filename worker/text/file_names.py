"""File names for whatever callers name: tenants, agents and ids."""

import hashlib
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_-]")


def file_name_of(given: str) -> str:
    """Return a unique file name for a name or an id. Pure."""
    if len(given) <= 128 and not _UNSAFE.search(given):
        return given
    return f"{_UNSAFE.sub('_', given)[:64]}.{hashlib.sha256(given.encode()).hexdigest()[:16]}"
