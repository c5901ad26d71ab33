"""Bulk import and export through an operation client."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any

from worker.domain.memory import Memory, MemoryType
from worker.transfer.entries import memory_from
from worker.transfer.fields import to_fields, to_line
from worker.transfer.markdown_export import markdown_item, type_heading
from worker.transfer.table import table_head, table_row

from .client import OperationClient
from .registry import EXPORT, PUT

BATCH = 100
PAGE = 200
WRITE_BUDGET = 60.0
"""Seconds per batch or page."""


class OutputFormat(StrEnum):
    """Formats of an export; none loses information."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"
    CSV = "csv"


MEDIA_TYPES = {
    OutputFormat.JSONL: "application/jsonl",
    OutputFormat.MARKDOWN: "text/markdown",
    OutputFormat.CSV: "text/csv",
}
SUFFIXES = {OutputFormat.JSONL: "jsonl", OutputFormat.MARKDOWN: "md", OutputFormat.CSV: "csv"}


def batches(memories: Iterable[Memory], size: int) -> Iterator[list[Memory]]:
    """Split the memories into lists of at most `size`."""
    remaining = iter(memories)
    while batch := list(islice(remaining, size)):
        yield batch


async def put_batch(
    client: OperationClient, tenant: str, memories: Sequence[Memory], *, mask: bool = False
) -> dict[str, int]:
    """Store at most `BATCH` memories and return the fields of `PutResult`."""
    payload = {"tenant": tenant, "memories": [to_fields(memory) for memory in memories], "mask": mask}
    return await client.call(PUT, payload, budget=WRITE_BUDGET)


async def pages(client: OperationClient, tenant: str, **where: Any) -> AsyncIterator[list[Memory]]:
    """Yield all memories of a tenant page by page, filtered by `where`."""
    cursor: str | None = None
    while True:
        payload = {"tenant": tenant, "cursor": cursor, "limit": PAGE, **where}
        page = await client.call(EXPORT, payload, budget=WRITE_BUDGET)
        if page["memories"]:
            yield [memory_from(fields, None) for fields in page["memories"]]
        cursor = page["cursor"]
        if cursor is None:
            return


async def export_pieces(
    client: OperationClient, tenant: str, output_format: OutputFormat
) -> AsyncIterator[tuple[str, int]]:
    """Yield pieces of a file with all memories of a tenant, each with its number of memories."""
    if output_format is OutputFormat.MARKDOWN:
        async for piece in _markdown(client, tenant):
            yield piece
        return
    write = to_jsonl if output_format is OutputFormat.JSONL else table_row
    yield (table_head() if output_format is OutputFormat.CSV else ""), 0
    async for page in pages(client, tenant):
        yield "".join(map(write, page)), len(page)


async def exported(client: OperationClient, tenant: str, output_format: OutputFormat) -> AsyncIterator[bytes]:
    """Return the bytes of an export; the store is asked first, so that its errors precede an answer."""
    pieces, first = export_pieces(client, tenant, output_format), ""
    async for piece, memories in pieces:
        first += piece
        if memories:
            break
    return _encoded(first, pieces)


async def _encoded(first: str, pieces: AsyncIterator[tuple[str, int]]) -> AsyncIterator[bytes]:
    yield first.encode("utf-8")
    async for piece, _ in pieces:
        yield piece.encode("utf-8")


async def _markdown(client: OperationClient, tenant: str) -> AsyncIterator[tuple[str, int]]:
    for kind in MemoryType:
        heading = type_heading(kind)
        async for page in pages(client, tenant, types=[kind]):
            yield heading + "".join(map(markdown_item, page)), len(page)
            heading = ""
        if not heading:
            yield "\n", 0


def to_jsonl(memory: Memory) -> str:
    return to_line(memory) + "\n"
