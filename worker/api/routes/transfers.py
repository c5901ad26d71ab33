"""Endpoints that import and export files of memories. They stream: no file is held in memory."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator
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
from worker.api.schemas import MOST_REPORTED, ImportReport, RejectedEntry
from worker.domain.errors import MeeseeksError, MemoryRejected
from worker.domain.memory import Memory
from worker.operations.bulk import BATCH, OutputFormat, export_pieces, put_batch
from worker.transfer.apart import read_apart
from worker.transfer.entries import LeftOut, Noted, Remark
from worker.transfer.formats import Format, Source

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

MEDIA_TYPES = {
    OutputFormat.JSONL: "application/jsonl",
    OutputFormat.MARKDOWN: "text/markdown",
    OutputFormat.CSV: "text/csv",
}

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
        importing = _Import(executor, request, tenant, mask=mask or executor.mask, dry_run=dry_run)
        file, name = await asyncio.to_thread(tempfile.mkstemp, "", "meeseeks-import-")
        path = Path(name)
        try:
            await _spool(request, file)
            return JsonAnswer((await importing.run(path, file_format or FORMATS[kind])).model_dump(mode="json"))
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


async def _spool(request: Request, file: int) -> None:
    with os.fdopen(file, "wb") as stream:
        async for chunk in request.stream():
            await asyncio.to_thread(stream.write, chunk)


class _Import:
    """The import of one file."""

    def __init__(
        self, executor: OperationExecutor, request: Request, tenant: str, *, mask: bool, dry_run: bool
    ) -> None:
        self._executor = executor
        self._receive = request.receive
        self._tenant = tenant_of(request, tenant)
        self._mask = mask
        self._dry_run = dry_run
        self._report = ImportReport()

    async def run(self, path: Path, file_format: Format | None) -> ImportReport:
        """Import the whole file. Raise `Problem` if its format is unclear or storing fails."""
        source = Source(path, "the file", file_format)
        try:
            await asyncio.to_thread(source.format)
        except MemoryRejected as error:
            detail = "unknown or wrong file format; name it with ?format="
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, reason=Reason.BAD_REQUEST) from error
        async with read_apart(path, file_format, mask=self._mask) as entries:
            while batch := await self._next_batch(entries):
                await self._store(batch)
                if await has_left(self._receive):
                    raise ClientGone
        return self._report

    async def _next_batch(self, entries: AsyncIterator[Memory | Remark]) -> list[Memory]:
        """Return the next memories, and report what is not taken. Raise `ClientGone`."""
        batch: list[Memory] = []
        async for entry in entries:
            if isinstance(entry, Memory):
                batch.append(entry)
            else:
                self._remark(entry)
                if await has_left(self._receive):
                    raise ClientGone
            if len(batch) == BATCH:
                break
        return batch

    def _remark(self, entry: Remark) -> None:
        report = self._report
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
        report = self._report
        report.read += len(batch)
        for memory in batch:
            report.types[memory.type.value] = report.types.get(memory.type.value, 0) + 1
        if self._dry_run:
            report.memories += batch[: MOST_REPORTED - len(report.memories)]
            return
        try:
            stored = await put_batch(self._executor.backend, self._tenant, batch, mask=self._mask)
        except MeeseeksError as error:
            problem = problem_of(error)
            done = report.created + report.updated + report.unchanged
            problem.detail = f"{problem.detail}; {done} memories were stored before that; send the file again"
            raise problem from error
        for name, count in stored.items():
            setattr(report, name, getattr(report, name, 0) + count)


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
        pieces = export_pieces(executor.backend, tenant_of(request, tenant), output_format)
        first = await _read_first(pieces)
        headers = {"Content-Disposition": f'attachment; filename="memories.{_SUFFIXES[output_format]}"'}
        return StreamingResponse(_texts(first, pieces), headers=headers, media_type=MEDIA_TYPES[output_format])


_SUFFIXES = {OutputFormat.JSONL: "jsonl", OutputFormat.MARKDOWN: "md", OutputFormat.CSV: "csv"}


async def _read_first(pieces: AsyncIterator[tuple[str, int]]) -> str:
    """Return the pieces up to the first memory, so that errors of the store precede the response."""
    text = ""
    async for piece, memories in pieces:
        text += piece
        if memories:
            break
    return text


async def _texts(first: str, pieces: AsyncIterator[tuple[str, int]]) -> AsyncIterator[bytes]:
    yield first.encode("utf-8")
    async for piece, _ in pieces:
        yield piece.encode("utf-8")
