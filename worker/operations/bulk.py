"""Many memories at a time through a backend: stored in batches, read page by page, written in the formats of files."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Any

from worker.domain.memory import Memory, MemoryType
from worker.transfer import markdown_item, memory_from, table_head, table_row, to_fields, to_line, type_heading

from .client import OperationClient
from .memories import EXPORT, PUT

BATCH = 100
PAGE = 200
WRITE_BUDGET = 60.0
"""Seconds that a batch or a page may take."""


class OutputFormat(StrEnum):
    """What an export may be; only Markdown loses something."""

    JSONL = "jsonl"
    MARKDOWN = "markdown"
    CSV = "csv"


def batches(memories: Iterable[Memory], size: int) -> Iterator[list[Memory]]:
    """The memories in lists of at most `size`."""
    remaining = iter(memories)
    while batch := list(islice(remaining, size)):
        yield batch


async def put_batch(
    backend: OperationClient, tenant: str, memories: Sequence[Memory], *, mask: bool = False
) -> dict[str, int]:
    """Store at most `BATCH` memories; how many were created, updated, unchanged and left without a vector."""
    payload = {"tenant": tenant, "memories": [to_fields(memory) for memory in memories], "mask": mask}
    return await backend.call(PUT, payload, budget=WRITE_BUDGET)


async def pages(backend: OperationClient, tenant: str, **where: Any) -> AsyncIterator[list[Memory]]:
    """All memories of a tenant, page by page; `where` narrows them."""
    cursor: str | None = None
    while True:
        payload = {"tenant": tenant, "cursor": cursor, "limit": PAGE, **where}
        page = await backend.call(EXPORT, payload, budget=WRITE_BUDGET)
        if page["memories"]:
            yield [memory_from(fields, None) for fields in page["memories"]]
        cursor = page["cursor"]
        if cursor is None:
            return


async def written(backend: OperationClient, tenant: str, wanted: OutputFormat) -> AsyncIterator[tuple[str, int]]:
    """Pieces of a file of all memories of a tenant, with the number of memories in each."""
    if wanted is OutputFormat.MARKDOWN:
        async for piece in _markdown(backend, tenant):
            yield piece
        return
    write = to_jsonl if wanted is OutputFormat.JSONL else table_row
    yield (table_head() if wanted is OutputFormat.CSV else ""), 0
    async for page in pages(backend, tenant):
        yield "".join(map(write, page)), len(page)


async def _markdown(backend: OperationClient, tenant: str) -> AsyncIterator[tuple[str, int]]:
    for kind in MemoryType:
        heading = type_heading(kind)
        async for page in pages(backend, tenant, types=[kind]):
            yield heading + "".join(map(markdown_item, page)), len(page)
            heading = ""
        if not heading:
            yield "\n", 0


def to_jsonl(memory: Memory) -> str:
    return to_line(memory) + "\n"
