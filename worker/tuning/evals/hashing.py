"""Names for contents. Pure."""

import hashlib
from collections.abc import Iterable


def sha256(text: str) -> str:
    return digest([text.encode()])


def digest(parts: Iterable[bytes]) -> str:
    """SHA-256 of `parts`, each with its length, in hexadecimal."""
    found = hashlib.sha256()
    for part in parts:
        found.update(str(len(part)).encode() + b":" + part)
    return found.hexdigest()
