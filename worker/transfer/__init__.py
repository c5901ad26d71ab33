"""Memories from files and to files: one reader per format, all of them streaming. Pure but for the files."""

from .entries import (
    MAX_CONTENT_CHARS,
    Fields,
    Found,
    Rejected,
    changed,
    check_content,
    derived_id,
    memory_from,
    to_fields,
    to_line,
)
from .jsonl import read_lines

__all__ = [
    "MAX_CONTENT_CHARS",
    "Fields",
    "Found",
    "Rejected",
    "changed",
    "check_content",
    "derived_id",
    "memory_from",
    "read_lines",
    "to_fields",
    "to_line",
]
