"""`meeseeks store`: show, back up, restore, reindex and migrate the store."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

from worker.domain.errors import StoreError
from worker.operations.client import OperationClient
from worker.operations.registry import STORE_INFO, STORE_JOB_START, STORE_JOB_STATUS
from worker.operations.requests import JobKind
from worker.settings.injection import Settings

from .backend import local, open_client
from .options import settings_of
from .output import fail, printed_as_json, say, show, table, wants_json
from .progress import progress_bar
from .running import run_async

POLL_S = 0.2
BUDGET_S = 30.0
ARCHIVE_HELP = "Folder or .tar.gz file on the machine of the service."

store = typer.Typer(
    no_args_is_help=True, help="Maintain the store: backups, indexes, engines, relations, cues and usage."
)

ByEmbedder = Annotated[str | None, typer.Option("--embedder", help="Embedder to use (default: the configured one).")]


@store.command()
def info(context: typer.Context) -> None:
    """Show the store, its embedder, its index generations and the running job."""
    settings = settings_of(context)
    found = run_async(_ask(settings))
    if printed_as_json(found):
        return
    health, generations, made_by = found["store"], found["generations"], found["made_by"]
    embedder = made_by["embedder"] or {"name": "none", "dimension": 0}
    rows = [
        ["store", f"{health['points']} memories in {health['engine']}, {generations['live']}"],
        ["vectors", f"{embedder['name']}, {embedder['dimension']} dimensions"],
        ["previous", ", ".join(generations["previous"]) or "none"],
        ["unfinished", generations["draft"] or "none"],
        ["running job", found["job"]["kind"] if found["job"]["state"] == "running" else "none"],
        *(["note", note] for note in [health["fault"], *health["notes"], damage_text(found["rows"])] if note),
    ]
    show(table(None, ["", ""], rows))


@store.command()
def backup(context: typer.Context, path: Annotated[Path, typer.Argument(help=ARCHIVE_HELP)]) -> None:
    """Write all memories of all tenants, with their vectors, to a new folder or archive."""
    _start(context, {"kind": JobKind.BACKUP, "path": str(path.absolute())})


@store.command()
def restore(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help=ARCHIVE_HELP)],
    force: Annotated[bool, typer.Option("--force", help="Replace all memories in the store.")] = False,
) -> None:
    """Restore a backup. A non-empty store is replaced only with --force; `reindex --rollback` undoes it."""
    _start(context, {"kind": JobKind.RESTORE, "path": str(path.absolute()), "force": force})


@store.command()
def reindex(
    context: typer.Context,
    embedder: ByEmbedder = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Return to the previous index.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete previous and unfinished indexes.")] = False,
    min_overlap: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Least share of earlier search results that the new index must find."),
    ] = 0.3,
    force: Annotated[bool, typer.Option("--force", help="Rebuild all vectors; ignore --min-overlap.")] = False,
) -> None:
    """Rebuild the vectors of all memories with the current embedder, while the service keeps answering.

    An interrupted run continues when started again. The previous index is kept until --prune.
    """
    if rollback and prune:
        fail("use either --rollback or --prune")
    kind = JobKind.ROLLBACK if rollback else JobKind.PRUNE if prune else JobKind.REINDEX
    _start(context, {"kind": kind, "embedder": embedder, "force": force, "min_overlap": min_overlap})
    if embedder is not None and not wants_json() and kind is not JobKind.PRUNE:
        say(f'now set embedder = "{embedder}" under [service] in the settings before the next start')


@store.command()
def migrate(
    context: typer.Context,
    to: Annotated[str, typer.Option(help="`edge` for the embedded store, or the URL of a Qdrant server.")],
    force: Annotated[bool, typer.Option("--force", help="Overwrite a store that is not empty.")] = False,
) -> None:
    """Copy the whole store to another engine. The service uses the old one until you change its settings.

    To copy memories written meanwhile, run it again with --force, which copies only the differences.
    """
    _start(context, {"kind": JobKind.MIGRATE, "to": to, "force": force})


def damage_text(rows: dict[str, int]) -> str:
    """Return what is wrong with the memories that were read, "" if nothing is."""
    parts = []
    if rows["damaged"]:
        parts.append(f"memories with a field that cannot be read, whose default is used: {rows['damaged']}")
    if rows["unreadable"]:
        parts.append(f"memories that cannot be read and are left out: {rows['unreadable']}")
    return f"{'; '.join(parts)}; examined: {rows['read'] + rows['unreadable']}" if parts else ""


def _start(context: typer.Context, payload: dict[str, Any]) -> None:
    settings = settings_of(context)
    result = run_async(_run_job(settings, payload))
    if printed_as_json(result):
        return
    show(table(None, ["", ""], [[name.replace("_", " "), _text(value)] for name, value in result.items()]))


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


async def _ask(settings: Settings) -> dict[str, Any]:
    async with _backend(settings) as backend:
        return await backend.call(STORE_INFO, {}, budget=BUDGET_S)


@asynccontextmanager
async def _backend(settings: Settings) -> AsyncIterator[OperationClient]:
    """Connect to the service that owns an embedded store; open a store on a server directly."""
    if settings.service.qdrant_url is None:
        async with open_client(settings) as backend:
            yield backend
    else:
        async with local().open_local(settings, with_model=False) as backend:
            yield backend


async def _run_job(settings: Settings, payload: dict[str, Any]) -> dict[str, Any]:
    """Start a job, wait for it and return its result. Raise `StoreError` if it fails."""
    async with _backend(settings) as backend:
        started = await backend.call(STORE_JOB_START, payload, budget=BUDGET_S)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with progress_bar(
            *columns,
        ) as progress:
            task = progress.add_task(payload["kind"], total=None)
            while True:
                status = await backend.call(STORE_JOB_STATUS, {}, budget=BUDGET_S)
                if status.get("id") != started["id"]:
                    raise StoreError("the service was restarted; run the command again to continue")
                if status["state"] != "running":
                    return _result(status)
                progress.update(
                    task, description=status["phase"], completed=status["done"], total=status["total"] or None
                )
                await asyncio.sleep(POLL_S)


def _result(status: dict[str, Any]) -> dict[str, Any]:
    if status["state"] == "done":
        result: dict[str, Any] = status["result"]
        return result
    raise StoreError(status["error"] or "the job was interrupted")
