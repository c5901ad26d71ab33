"""Import a file of memories through an operation client: read it apart, store it in batches, and report."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, Field

from worker.domain.errors import MeeseeksError, MemoryRejected
from worker.domain.memory import Memory
from worker.transfer.apart import read_apart
from worker.transfer.entries import LeftOut, Noted, Remark
from worker.transfer.formats import Format, Source

from .bulk import BATCH, put_batch
from .client import OperationClient

MOST_REPORTED = 1000
"""Most rejected entries that an import report lists."""


class RejectedEntry(BaseModel):
    """What became of an entry of an imported file. `line` counts from 1; 0 means the whole file."""

    line: int
    reason: str


class ImportReport(BaseModel):
    """The result of an import. A dry run stores nothing and only counts `read`."""

    read: int = 0
    created: int = 0
    updated: int = 0
    unchanged: int = 0
    without_vector: int = 0
    rejected_before: int = Field(
        default=0, description="Number of memories that were rejected, or deleted after they were captured."
    )
    refused: int = 0
    rejected: list[RejectedEntry] = Field(
        default_factory=list, description=f"The first {MOST_REPORTED} rejected entries."
    )
    omitted: int = Field(default=0, description="Number of parts that were left out on purpose.")
    left_out: list[RejectedEntry] = Field(default_factory=list, description=f"The first {MOST_REPORTED} of these.")
    changed: int = Field(default=0, description="Number of remarks about values that were not kept.")
    notes: list[RejectedEntry] = Field(default_factory=list, description=f"The first {MOST_REPORTED} of these.")
    types: dict[str, int] = Field(default_factory=dict, description="Number of memories read, by type.")
    memories: list[Memory] = Field(
        default_factory=list, description=f"In a dry run, the first {MOST_REPORTED} memories as they would be stored."
    )


class UnclearFormat(Exception):
    """The format of a file is unknown, or is not the one that was named."""


class ImportStopped(Exception):
    """Storing failed with `error` after some memories had been stored."""

    def __init__(self, error: MeeseeksError, done: int) -> None:
        super().__init__(f"{error}; {done} memories were stored before that; send the file again")
        self.error = error


async def _stays() -> None:
    """Whoever waits for the import does not leave."""


@dataclass
class FileImport:
    """The import of one file. A dry run stores nothing. `check` raises if nobody waits for the import any more."""

    client: OperationClient
    tenant: str
    mask: bool
    dry_run: bool
    check: Callable[[], Awaitable[None]] = _stays
    report: ImportReport = field(default_factory=ImportReport)

    async def run(self, path: Path, file_format: Format | None, name: str = "the file") -> ImportReport:
        """Import the whole file.

        Raise `UnclearFormat`, and `ImportStopped` if storing fails.
        """
        try:
            await asyncio.to_thread(Source(path, name, file_format).format)
        except MemoryRejected as error:
            raise UnclearFormat(str(error)) from error
        async with read_apart(path, file_format, mask=self.mask) as entries:
            while batch := await self._next_batch(entries):
                await self._store(batch)
                await self.check()
        return self.report

    async def _next_batch(self, entries: AsyncIterator[Memory | Remark]) -> list[Memory]:
        """Return the next memories, and report what is not taken."""
        batch: list[Memory] = []
        async for entry in entries:
            if isinstance(entry, Memory):
                batch.append(entry)
            else:
                self._remark(entry)
                await self.check()
            if len(batch) == BATCH:
                break
        return batch

    def _remark(self, entry: Remark) -> None:
        report = self.report
        if isinstance(entry, LeftOut):
            report.omitted += 1
            told = report.left_out
        elif isinstance(entry, Noted):
            report.changed += 1
            told = report.notes
        else:
            report.refused += 1
            told = report.rejected
        if len(told) < MOST_REPORTED:
            told.append(RejectedEntry(line=entry.line, reason=entry.reason))

    async def _store(self, batch: list[Memory]) -> None:
        report = self.report
        report.read += len(batch)
        for memory in batch:
            report.types[memory.type.value] = report.types.get(memory.type.value, 0) + 1
        if self.dry_run:
            report.memories += batch[: MOST_REPORTED - len(report.memories)]
            return
        try:
            stored = await put_batch(self.client, self.tenant, batch, mask=self.mask)
        except MeeseeksError as error:
            raise ImportStopped(error, report.created + report.updated + report.unchanged) from error
        for name, count in stored.items():
            setattr(report, name, getattr(report, name, 0) + count)
