"""Endpoints that bring a file of memories in and out, piece by piece; no file is ever held in memory."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
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
from worker.operations.bulk import BATCH, OutputFormat, put_batch, written
from worker.transfer import Format, Rejected, Source

TAGS: list[Any] = ["memories"]

FORMATS: dict[str, Format | None] = {
    "application/jsonl": Format.JSONL,
    "application/x-ndjson": Format.JSONL,
    "text/markdown": Format.MARKDOWN,
    "text/csv": Format.CSV,
    "text/tab-separated-values": Format.CSV,
    "application/json": None,
    "application/octet-stream": None,
}
"""Formats by the type that a body says it has; `None` is told by what is inside."""

MEDIA_TYPES = {
    OutputFormat.JSONL: "application/jsonl",
    OutputFormat.MARKDOWN: "text/markdown",
    OutputFormat.CSV: "text/csv",
}

FILE = {
    "requestBody": {
        "required": True,
        "description": "The file itself. Its type says what format it has, unless `format` does.",
        "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in FORMATS},
    }
}
EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Every memory of the tenant. A file that is cut off is not the whole of them.",
        "content": {kind: {"schema": {"type": "string"}} for kind in MEDIA_TYPES.values()},
    }
}


def add_transfers(app: FastAPI, executor: OperationExecutor) -> None:
    _add_import(app, executor)
    _add_export(app, executor)


def _add_import(app: FastAPI, executor: OperationExecutor) -> None:
    @app.post(IMPORT, tags=TAGS, operation_id="import_memories", response_model=ImportReport, openapi_extra=FILE)
    async def take(
        request: Request,
        tenant: Tenant = "default",
        wanted: Annotated[Format | None, Query(alias="format", description="What the file is.")] = None,
        mask: Annotated[bool, Query(description="Mask secrets before they are stored.")] = False,
        dry_run: Annotated[bool, Query(description="Read and check everything, store nothing.")] = False,
    ) -> Response:
        """Import a file of memories. What cannot be taken is reported, and nothing is stored twice: send it again."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in FORMATS:
            raise unsupported(*FORMATS)
        importing = _Import(executor, request, tenant, mask=mask or executor.mask, dry_run=dry_run)
        file, name = await asyncio.to_thread(tempfile.mkstemp, "", "meeseeks-import-")
        path = Path(name)
        try:
            await _spool(request, file)
            return JsonAnswer((await importing.run(path, wanted or FORMATS[kind])).model_dump(mode="json"))
        finally:
            await asyncio.to_thread(path.unlink, missing_ok=True)


async def _spool(request: Request, file: int) -> None:
    """Write the body to a file, as it comes."""
    with os.fdopen(file, "wb") as stream:
        async for chunk in request.stream():
            await asyncio.to_thread(stream.write, chunk)


class _Import:
    """One file on its way in."""

    def __init__(
        self, executor: OperationExecutor, request: Request, tenant: str, *, mask: bool, dry_run: bool
    ) -> None:
        self._executor = executor
        self._receive = request.receive
        self._tenant = tenant_of(request, tenant)
        self._mask = mask
        self._dry_run = dry_run
        self._report = ImportReport()

    async def run(self, path: Path, wanted: Format | None) -> ImportReport:
        """Everything of the file. Raises `Problem` where its format cannot be told, or where storing fails."""
        source = Source(path, "the file", wanted)
        try:
            await asyncio.to_thread(source.format)
        except MemoryRejected as error:
            detail = "it cannot be told what format the file has, or it has another than was said; see ?format="
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, detail, reason=Reason.BAD_REQUEST) from error
        entries = source.entries(mask=self._mask)
        while batch := await asyncio.to_thread(self._next_batch, entries):
            await self._store(batch)
            if await has_left(self._receive):
                raise ClientGone
        return self._report

    def _next_batch(self, entries: Iterator[Memory | Rejected]) -> list[Memory]:
        """The next memories; what is none is reported."""
        batch: list[Memory] = []
        for entry in entries:
            if isinstance(entry, Memory):
                batch.append(entry)
            else:
                self._reject(entry)
            if len(batch) == BATCH:
                break
        return batch

    def _reject(self, entry: Rejected) -> None:
        self._report.refused += 1
        if len(self._report.rejected) < MOST_REPORTED:
            self._report.rejected.append(RejectedEntry(line=entry.line, reason=entry.reason))

    async def _store(self, batch: list[Memory]) -> None:
        report = self._report
        report.read += len(batch)
        if self._dry_run:
            return
        try:
            stored = await put_batch(self._executor.backend, self._tenant, batch, mask=self._mask)
        except MeeseeksError as error:
            problem = problem_of(error)
            done = report.created + report.updated + report.unchanged
            problem.detail = f"{problem.detail}; {done} memories were taken before that, so send the file again"
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
        wanted: Annotated[
            OutputFormat,
            Query(alias="format", description="jsonl and csv lose nothing; markdown keeps text, type and day."),
        ] = OutputFormat.JSONL,
    ) -> Response:
        """Every memory of a tenant as a file, which can be imported again."""
        pieces = written(executor.backend, tenant_of(request, tenant), wanted)
        try:
            first = await _up_to_the_first_memory(pieces)
        except MeeseeksError as error:
            raise problem_of(error) from error
        headers = {"Content-Disposition": f'attachment; filename="memories.{_SUFFIXES[wanted]}"'}
        return StreamingResponse(_texts(first, pieces), headers=headers, media_type=MEDIA_TYPES[wanted])


_SUFFIXES = {OutputFormat.JSONL: "jsonl", OutputFormat.MARKDOWN: "md", OutputFormat.CSV: "csv"}


async def _up_to_the_first_memory(pieces: AsyncIterator[tuple[str, int]]) -> str:
    """What comes before the first memory and with it: by then the store has answered."""
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
