"""`meeseeks import` and `meeseeks export`."""

import asyncio
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from hooks.private_files import private_file
from worker.cli.backend import open_client
from worker.cli.options import Tenant, settings_of
from worker.cli.output import answer, errors, fail, printed_as_json, say
from worker.cli.progress import progress_bar
from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.operations.bulk import BATCH, OutputFormat, batches, export_pieces, put_batch
from worker.operations.client import OperationClient
from worker.settings.atomic_file import replacing
from worker.settings.injection import Settings
from worker.transfer import Format, Rejected, Source, sources

SHOWN_REJECTED = 20
"""Rejected entries that are printed; a report has all of them."""


@dataclass
class Tally:
    """The result of an import."""

    counts: dict[str, int] = field(default_factory=dict)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    refused: int = 0

    def add(self, counts: dict[str, int]) -> None:
        for name, count in counts.items():
            self.counts[name] = self.counts.get(name, 0) + count


def import_memories(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files or folders.", exists=True)],
    wanted: Annotated[Format | None, typer.Option("--format", help="File format (default: detected).")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the files without storing anything.")] = False,
    mask: Annotated[bool, typer.Option("--mask", help="Mask secrets before storing.")] = False,
    report: Annotated[Path | None, typer.Option("--rejected", help="File for rejected entries, as JSON Lines.")] = None,
    tenant: Tenant = "default",
) -> None:
    """Import memories from JSON Lines, JSON, CSV, Markdown notes, memory files of coding agents or a mem0 export.

    Invalid entries are reported and skipped. Nothing is stored twice, so an interrupted import can be repeated.
    """
    settings = settings_of(context)
    mask = mask or settings.service.mask_secrets_at_write
    tally = Tally()
    try:
        with _reporting(report, tally) as reject:
            files = sources(paths, wanted)
            asyncio.run(_import(settings, tenant, files, tally, reject, _Options(mask, dry_run)))
    except OSError as error:
        fail(str(error))
    _print(tally, report)
    if tally.refused:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class _Options:
    mask: bool
    dry_run: bool


Reject = Callable[[Source, Rejected], None]


@contextmanager
def _reporting(report: Path | None, tally: Tally) -> Iterator[Reject]:
    """Yield a function that counts rejected entries, keeps the first ones and writes all to `report`."""
    stream = os.fdopen(private_file(report), "w", buffering=1, encoding="utf-8") if report is not None else None

    def reject(source: Source, entry: Rejected) -> None:
        line = {"file": source.name, "line": entry.line, "reason": entry.reason}
        tally.refused += 1
        if len(tally.rejected) < SHOWN_REJECTED:
            tally.rejected.append(line)
        if stream is not None:
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")

    try:
        yield reject
    finally:
        if stream is not None:
            stream.close()


async def _import(
    settings: Settings, tenant: str, files: list[Source], tally: Tally, reject: Reject, options: _Options
) -> None:
    entries = _entries(files, reject, mask=options.mask)
    total = sum(source.size for source in files)
    columns = (TextColumn("importing"), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeRemainingColumn())
    with progress_bar(*columns) as progress:
        task = progress.add_task("importing", total=total)

        def advance() -> None:
            progress.update(task, completed=sum(source.done for source in files))

        if options.dry_run:
            for batch in batches(entries, BATCH):
                tally.add({"would be read": len(batch)})
                advance()
            return
        async with open_client(settings) as backend:
            for batch in batches(entries, BATCH):
                tally.add(await put_batch(backend, tenant, batch, mask=options.mask))
                advance()


def _entries(files: list[Source], reject: Reject, *, mask: bool) -> Iterator[Memory]:
    """Yield the memories of all files in order; pass invalid entries and unreadable files to `reject`."""
    for source in files:
        try:
            for entry in source.entries(mask=mask):
                if isinstance(entry, Memory):
                    yield entry
                else:
                    reject(source, entry)
        except (OSError, MemoryRejected) as error:
            reject(source, Rejected(0, str(error)))


async def put_all(backend: OperationClient, tenant: str, memories: Sequence[Memory]) -> dict[str, int]:
    """Store memories in batches and return the total counts."""
    tally = Tally()
    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn())
    with progress_bar(
        *columns,
    ) as progress:
        task = progress.add_task("importing", total=len(memories))
        for batch in batches(memories, BATCH):
            tally.add(await put_batch(backend, tenant, batch))
            progress.advance(task, len(batch))
    return tally.counts


def _print(tally: Tally, report: Path | None) -> None:
    if printed_as_json({**tally.counts, "refused": tally.refused, "rejected": tally.rejected}):
        return
    done = [f"{count} {name.replace('_', ' ')}" for name, count in tally.counts.items() if count]
    say(", ".join([*done, *([f"{tally.refused} rejected"] if tally.refused else [])]) or "no memories found")
    for entry in tally.rejected:
        where = f"{entry['file']}, line {entry['line']}" if entry["line"] else entry["file"]
        errors.print(f"{where}: {entry['reason']}", markup=False)
    more = tally.refused - len(tally.rejected)
    if more:
        errors.print(f"and {more} more: {report or 'see --rejected'}", markup=False)


def export_memories(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Output file (default: standard output).")] = None,
    wanted: Annotated[
        OutputFormat,
        typer.Option("--format", help="jsonl and csv keep everything; markdown keeps text, type and date."),
    ] = OutputFormat.JSONL,
    tenant: Tenant = "default",
) -> None:
    """Export all memories of a tenant in a format that `import` reads."""
    settings = settings_of(context)
    if file is None:
        asyncio.run(_export(settings, tenant, wanted, sys.stdout))
        return
    try:
        with replacing(file) as draft:
            stream = io.TextIOWrapper(draft, encoding="utf-8", newline="")
            count = asyncio.run(_export(settings, tenant, wanted, stream))
            stream.detach()
    except OSError as error:
        fail(f"{file}: {error}")
    answer({"exported": count, "file": str(file)}, f"exported: {count}")


async def _export(settings: Settings, tenant: str, wanted: OutputFormat, stream: TextIO) -> int:
    """Write page by page and return the number of memories."""
    async with open_client(settings) as backend:
        count = 0
        async for text, memories in export_pieces(backend, tenant, wanted):
            await asyncio.to_thread(stream.write, text)
            count += memories
    stream.flush()
    return count
