"""Import and export of memories, with one streaming reader per format."""

from .entries import MAX_CONTENT_CHARS, Rejected, changed, check_content, derived_id, memory_from, to_fields, to_line
from .formats import Format, Source, sources
from .jsonl import read_lines
from .markdown import markdown_item, type_heading
from .table import table_head, table_row

__all__ = [
    "MAX_CONTENT_CHARS",
    "Format",
    "Rejected",
    "Source",
    "changed",
    "check_content",
    "derived_id",
    "markdown_item",
    "memory_from",
    "read_lines",
    "sources",
    "table_head",
    "table_row",
    "to_fields",
    "to_line",
    "type_heading",
]
