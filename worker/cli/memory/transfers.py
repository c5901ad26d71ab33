"""`meeseeks import` and `meeseeks export`."""

import asyncio
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TextIO

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from worker.cli.backend import open_client
from worker.cli.options import Tenant, settings_of
from worker.cli.output import answer, fail
from worker.cli.progress import progress_bar
from worker.cli.running import run_async
from worker.domain.errors import MemoryRejected
from worker.domain.memory import Memory
from worker.operations.bulk import BATCH, OutputFormat, batches, export_pieces, put_batch
from worker.operations.client import OperationClient
from worker.settings.atomic_file import replacing
from worker.settings.injection import Settings
from worker.text.terminal import for_terminal
from worker.transfer.entries import REST_SKIPPED, Rejected
from worker.transfer.formats import Format, Selection, Source, sources

from .import_report import ImportReport, reporting
from .places import MAX_IDS, Comparison, Places


def import_memories(
    context: typer.Context,
    paths: Annotated[list[Path], typer.Argument(help="Files or folders.", exists=True)],
    wanted: Annotated[Format | None, typer.Option("--format", help="File format (default: detected).")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the memories without storing anything.")] = False,
    mask: Annotated[bool, typer.Option("--mask", help="Mask secrets before storing.")] = False,
    outdated: Annotated[
        bool, typer.Option("--outdated", help="Mark memories as outdated whose lines are gone from their file.")
    ] = False,
    report: Annotated[
        Path | None, typer.Option("--rejected", help="File for everything that was not taken, as JSON Lines.")
    ] = None,
    tenant: Tenant = "default",
) -> None:
    """Import memories from notes, memory files of coding agents, tables, JSON, or the dump of another memory system.

    Whatever is not taken is reported. Nothing is stored twice, and an edited file updates what came from it.
    """
    settings = settings_of(context)
    options = ImportOptions(mask or settings.service.mask_secrets_at_write, dry_run, outdated)
    try:
        with reporting(report) as found:
            import_into(found, settings, sources(paths, wanted), tenant, options)
    except OSError as error:
        fail(str(error))
    found.print(report, dry_run=dry_run)
    if found.failed:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True)
class ImportOptions:
    mask: bool
    dry_run: bool = False
    outdated: bool = False


def import_into(
    report: ImportReport, settings: Settings, selection: Selection, tenant: str, options: ImportOptions
) -> None:
    """Import the files, and report what was done and what was not taken. Raise `OSError`."""
    for name, remark in selection.left_out:
        report.remark(name, remark)
    run_async(_Import(tenant, selection, report, options).run(settings))


class _Import:
    """One import. It keeps the texts of each file's memories, unless there are too many to compare."""

    def __init__(self, tenant: str, selection: Selection, report: ImportReport, options: ImportOptions) -> None:
        self._tenant = tenant
        self._selection = selection
        self._report = report
        self._options = options
        self._read: dict[Path, dict[str, str] | None] = {}

    async def run(self, settings: Settings) -> None:
        files = self._selection.files
        columns = (TextColumn("importing"), BarColumn(), TextColumn("{task.percentage:.0f} %"), TimeRemainingColumn())
        with progress_bar(*columns) as progress:
            task = progress.add_task("importing", total=sum(source.size for source in files))

            def advance() -> None:
                progress.update(task, completed=sum(source.done for source in files))

            if self._options.dry_run:
                for batch in batches(self._entries(), BATCH):
                    self._report.add({"would be read": len(batch)})
                    advance()
            elif files:
                await self._store(settings, advance)

    async def _store(self, settings: Settings, advance: Callable[[], None]) -> None:
        async with open_client(settings) as backend:
            for batch in batches(self._entries(), BATCH):
                self._report.add(await put_batch(backend, self._tenant, batch, mask=self._options.mask))
                advance()
            places = Places(settings.service.home, self._tenant)
            comparison = Comparison(backend, self._tenant, places, self._report)
            await comparison.files(self._read, self._selection.folders, mark=self._options.outdated)

    def _entries(self) -> Iterator[Memory]:
        """Yield the memories of all files in order, and report what is not taken and unreadable files."""
        for source in self._selection.files:
            texts: dict[str, str] = {}
            whole = True
            try:
                for entry in source.entries(mask=self._options.mask):
                    if isinstance(entry, Memory):
                        self._take(source, entry, texts)
                        yield entry
                    else:
                        whole = whole and not entry.reason.endswith(REST_SKIPPED)
                        self._report.remark(source.name, entry)
            except (OSError, MemoryRejected) as error:
                whole = False
                self._report.remark(source.name, Rejected(0, str(error)))
            self._read[source.path.resolve()] = texts if whole and len(texts) <= MAX_IDS else None

    def _take(self, source: Source, memory: Memory, texts: dict[str, str]) -> None:
        self._report.take(memory)
        if self._options.dry_run:
            self._report.preview(source.name, memory)
        elif len(texts) <= MAX_IDS:
            texts[memory.id] = memory.content


async def put_all(backend: OperationClient, tenant: str, memories: Sequence[Memory]) -> dict[str, int]:
    """Store memories in batches and return the total counts."""
    report = ImportReport()
    columns = (TextColumn("importing"), BarColumn(), MofNCompleteColumn())
    with progress_bar(
        *columns,
    ) as progress:
        task = progress.add_task("importing", total=len(memories))
        for batch in batches(memories, BATCH):
            report.add(await put_batch(backend, tenant, batch))
            progress.advance(task, len(batch))
    return report.counts


def export_memories(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Output file (default, or `-`: standard output).")] = None,
    wanted: Annotated[
        OutputFormat,
        typer.Option("--format", help="All formats keep everything."),
    ] = OutputFormat.JSONL,
    tenant: Tenant = "default",
) -> None:
    """Export all memories of a tenant in a format that `import` reads."""
    settings = settings_of(context)
    if file is None or str(file) == "-":
        written = _for_reader if sys.stdout.isatty() else str
        run_async(_export(settings, tenant, wanted, sys.stdout, written))
        return
    try:
        with replacing(file) as draft:
            stream = io.TextIOWrapper(draft, encoding="utf-8", newline="")
            count = run_async(_export(settings, tenant, wanted, stream))
            stream.detach()
    except OSError as error:
        fail(f"{file}: {error}")
    answer({"exported": count, "file": str(file)}, f"exported: {count}")


def _for_reader(text: str) -> str:
    """Return a piece of a file as a terminal shows it."""
    return for_terminal(text.replace("\r\n", "\n"))


async def _export(
    settings: Settings, tenant: str, wanted: OutputFormat, stream: TextIO, written: Callable[[str], str] = str
) -> int:
    """Write page by page and return the number of memories."""
    async with open_client(settings) as backend:
        count = 0
        async for text, memories in export_pieces(backend, tenant, wanted):
            await asyncio.to_thread(stream.write, written(text))
            count += memories
    stream.flush()
    return count
