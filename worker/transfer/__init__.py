"""Import and export of memories, with one streaming reader per format."""

from .apart import read_apart
from .entries import (
    MAX_CONTENT_CHARS,
    REST_SKIPPED,
    LeftOut,
    Noted,
    Rejected,
    Remark,
    changed,
    check_content,
    derived_id,
    memory_from,
    to_fields,
    to_line,
)
from .formats import Format, Selection, Source, sources
from .markdown_export import markdown_item, type_heading
from .table import table_head, table_row

__all__ = [
    "MAX_CONTENT_CHARS",
    "REST_SKIPPED",
    "Format",
    "LeftOut",
    "Noted",
    "Rejected",
    "Remark",
    "Selection",
    "Source",
    "changed",
    "check_content",
    "derived_id",
    "markdown_item",
    "memory_from",
    "read_apart",
    "sources",
    "table_head",
    "table_row",
    "to_fields",
    "to_line",
    "type_heading",
]
