"""Import files of memories, with a preview before anything is stored, and export them."""

import asyncio
import os
import shutil
import tempfile
from pathlib import Path

from pydantic import BaseModel
from starlette.datastructures import UploadFile
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from worker.console.app import Console, Handler
from worker.console.memory_words import MemoryRow, memory_row
from worker.console.rendering import Shown
from worker.console.security import HEADERS
from worker.console.visits import Visit, checked
from worker.operations.bulk import MEDIA_TYPES, SUFFIXES, OutputFormat, exported
from worker.operations.importing import FileImport, ImportReport, ImportStopped, RejectedEntry, UnclearFormat

IMPORT = "/memories/import"

SHOWN = 200
"""Memories and remarks of a file that the page shows."""


class ImportedFile(BaseModel):
    """What became of a file, or would; `error` says why it cannot be read."""

    name: str
    error: str | None = None
    stored: dict[str, int] = {}
    types: dict[str, int] = {}
    memories: list[MemoryRow] = []
    remarks: list[RejectedEntry] = []
    left_out: int = 0


class ImportPage(BaseModel):
    """The form, and what became of the files."""

    preview: bool = True
    files: list[ImportedFile] = []
    error: str | None = None


class ExportQuery(BaseModel):
    """The format of an export."""

    format: OutputFormat = OutputFormat.JSONL


def routes(console: Console) -> list[Route]:
    return [
        *console.page(IMPORT, show),
        *console.action(IMPORT, _importing(console)),
        Route("/memories/export", console.serving(export), methods=["GET"]),
    ]


async def show(visit: Visit) -> Shown:
    return _shown(ImportPage())


def _shown(page: ImportPage) -> Shown:
    return Shown("import.html", "Import memories", page, 422 if page.error else 200, part="import_report.html")


def _importing(console: Console) -> Handler:
    async def take(visit: Visit) -> Shown:
        preview = visit.text("preview") != "no"
        uploads = [one for one in visit.form.getlist("file") if isinstance(one, UploadFile) and one.filename]
        if not uploads:
            return _shown(ImportPage(preview=preview, error="Choose at least one file."))
        files = [await _import(visit, one, preview=preview, mask=console.access.masks_secrets) for one in uploads]
        return _shown(ImportPage(preview=preview, files=files))

    return take


async def _import(visit: Visit, upload: UploadFile, *, preview: bool, mask: bool) -> ImportedFile:
    """Import one file, or only look what would become of it."""
    name, path = Path(upload.filename or "file").name, await asyncio.to_thread(_spooled, upload)
    importing = FileImport(visit.backend, visit.tenant, mask=mask, dry_run=preview)
    try:
        return _file(name, await importing.run(path, None, name))
    except UnclearFormat as error:
        return ImportedFile(name=name, error=str(error).replace(str(path), name))
    except ImportStopped as error:
        return _file(name, importing.report).model_copy(update={"error": str(error)})
    finally:
        await asyncio.to_thread(path.unlink, missing_ok=True)


def _spooled(upload: UploadFile) -> Path:
    """Copy an upload to a file with its suffix, from which its format can be told."""
    file, name = tempfile.mkstemp(Path(upload.filename or "").suffix[:16], "meeseeks-import-")
    with os.fdopen(file, "wb") as target:
        shutil.copyfileobj(upload.file, target)
    return Path(name)


def _file(name: str, report: ImportReport) -> ImportedFile:
    remarks = [*report.rejected, *report.left_out, *report.notes]
    counts = {
        "created": report.created,
        "updated": report.updated,
        "unchanged": report.unchanged,
        "not stored again, as they were rejected or deleted before": report.rejected_before,
    }
    return ImportedFile(
        name=name,
        stored={key: count for key, count in counts.items() if count},
        types=report.types,
        memories=[memory_row(memory) for memory in report.memories[:SHOWN]],
        remarks=sorted(remarks, key=lambda one: one.line)[:SHOWN],
        left_out=report.refused + report.omitted,
    )


async def export(visit: Visit) -> Response:
    """Stream a file with all memories of the tenant."""
    wanted = checked(ExportQuery, dict(visit.request.query_params)).format
    content = await exported(visit.backend, visit.tenant, wanted)
    headers = {**HEADERS, "Content-Disposition": f'attachment; filename="memories.{SUFFIXES[wanted]}"'}
    return StreamingResponse(content, headers=headers, media_type=MEDIA_TYPES[wanted])
