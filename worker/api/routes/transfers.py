"""Endpoints that import and export files of memories. They stream: no file is held in memory."""

import asyncio
import os
import tempfile
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from starlette.responses import Response, StreamingResponse

from hooks.contract import Reason
from worker.api.access import IMPORT
from worker.api.execution import ClientGone, OperationExecutor, Tenant, has_left, tenant_of
from worker.api.json_bodies import JsonAnswer, unsupported
from worker.api.problems import Problem, problem_of
from worker.operations.bulk import MEDIA_TYPES, SUFFIXES, OutputFormat, exported
from worker.operations.importing import FileImport, ImportReport, ImportStopped, UnclearFormat
from worker.transfer.formats import Format

TAGS: list[Any] = ["memories"]

FORMATS: dict[str, Format | None] = {
    "application/jsonl": Format.JSONL,
    "application/x-ndjson": Format.JSONL,
    "text/markdown": Format.MARKDOWN,
    "text/plain": Format.TEXT,
    "text/csv": Format.CSV,
    "text/tab-separated-values": Format.CSV,
    "application/json": None,
    "application/octet-stream": None,
}
"""Formats by Content-Type; `None` detects the format from the content."""

FILE = {
    "requestBody": {
        "required": True,
        "description": "The file. Its Content-Type names the format unless `format` does.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in FORMATS},
    }
}
EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Every memory of the tenant. A truncated response is incomplete.",
        "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
    }
}


def add_transfers(app: FastAPI, executor: OperationExecutor) -> None:
    _add_import(app, executor)
    _add_export(app, executor)


def _add_import(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post(IMPORT, tags=TAGS, operation_id="import_memories", response_model=ImportReport, openapi_extra=FILE)
    async def import_file(
        request: Request,
        tenant: Tenant = "default",
        file_format: Annotated[Format | None, Query(alias="format", description="Format of the file.")] = None,
        mask: Annotated[bool, Query(description="Mask secrets before they are stored.")] = False,
        dry_run: Annotated[bool, Query(description="Check the file without storing anything.")] = False,
    ) -> Response:
        """Import a file of memories and report rejected entries. Sending a file again stores nothing twice."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in FORMATS:
            raise unsupported(*FORMATS)

        async def check() -> None:
            if await has_left(request.receive):
                raise ClientGone

        masked, bound = mask or executor.mask, tenant_of(request, tenant)
        importing = FileImport(executor.backend, bound, mask=masked, dry_run=dry_run, check=check)
        file, name = await asyncio.to_thread(tempfile.mkstemp, "", "meeseeks-import-")
        path = Path(name)
        try:
            await _spool(request, file)
            report = await _imported(importing, path, file_format or FORMATS[kind])
            return JsonAnswer(report.model_dump(mode="json"))
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


async def _spool(request: Request, file: int) -> None:
    with os.fdopen(file, "wb") as stream:
        async for chunk in request.stream():
            await asyncio.to_thread(stream.write, chunk)


async def _imported(importing: FileImport, path: Path, file_format: Format | None) -> ImportReport:
    """Import a file. Raise `Problem` if its format is unclear or storing fails."""
    try:
        return await importing.run(path, file_format)
    except UnclearFormat as error:
        detail = "unknown or wrong file format; name it with ?format="
        raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, reason=Reason.BAD_REQUEST) from error
    except ImportStopped as stopped:
        problem = problem_of(stopped.error)
        problem.detail = str(stopped)
        raise problem from stopped


def _add_export(app: FastAPI, executor: OperationExecutor) -> None:
    @app.get(
        "/v1/memories/export",
        tags=TAGS,
        operation_id="export_memories",
        responses=EXPORTED,
        response_class=StreamingResponse,
    )
    async def export(
        request: Request,
        tenant: Tenant = "default",
        output_format: Annotated[
            OutputFormat,
            Query(alias="format", description="All formats keep everything."),
        ] = OutputFormat.JSONL,
    ) -> Response:
        """Export all memories of a tenant as a file that can be imported again."""
        headers = {"Content-Disposition": f'attachment; filename="memories.{SUFFIXES[output_format]}"'}
        content = await exported(executor.backend, tenant_of(request, tenant), output_format)
        return StreamingResponse(content, headers=headers, media_type=MEDIA_TYPES[output_format])
