"""Commands that keep a whole store: what it is, backups, new vectors, another engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from worker.bootstrap.core import open_core
from worker.domain.errors import StoreError
from worker.operations.store import STORE_INFO, STORE_JOB_START, STORE_JOB_STATUS, JobKind
from worker.settings.injection import Settings

from .backend import LocalOperationClient, OperationClient, open_client
from .options import AsJson, run, settings_of
from .output import errors, fail, print_json, say, show, table

POLL_S = 0.2
BUDGET = 30.0
ARCHIVE_HELP = "A folder, or a file that ends in .tar.gz; on the machine of the service."

store = typer.Typer(no_args_is_help=True, help="Keep the whole store: back it up, make its vectors anew, move it.")

ByEmbedder = Annotated[
    str | None, typer.Option("--embedder", help="Embedder to use, as in the settings; the configured one by default.")
]


@store.command()
def info(context: typer.Context, as_json: AsJson = False) -> None:
    """What the store is, what made its vectors, which generations there are, and what is being done to it."""
    settings = settings_of(context, as_json=as_json)
    found = run(_ask(settings), as_json=as_json)
    if as_json:
        print_json(found)
        return
    health, generations, made_by = found["store"], found["generations"], found["made_by"]
    embedder = made_by["embedder"] or {"name": "none", "dimension": 0}
    rows = [
        ["store", f"{health['points']} memories in {health['engine']}, {generations['live']}"],
        ["vectors", f"{embedder['name']}, {embedder['dimension']} dimensions"],
        ["former", ", ".join(generations["previous"]) or "none"],
        ["unfinished", generations["draft"] or "none"],
        ["at work", found["job"]["kind"] if found["job"]["state"] == "running" else "nothing"],
        *(["note", note] for note in [health["fault"], *health["notes"]] if note),
    ]
    show(table(None, ["", ""], rows))


@store.command()
def backup(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help=ARCHIVE_HELP)],
    as_json: AsJson = False,
) -> None:
    """Write every memory of every tenant, with its vector, to a folder or archive that is not there yet."""
    _job(context, {"kind": JobKind.BACKUP, "path": str(path.absolute())}, as_json)


@store.command()
def restore(
    context: typer.Context,
    path: Annotated[Path, typer.Argument(help=ARCHIVE_HELP)],
    force: Annotated[bool, typer.Option("--force", help="Replace what the store holds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Put a backup back. What the store held is replaced only with --force, and kept for `reindex --rollback`."""
    _job(context, {"kind": JobKind.RESTORE, "path": str(path.absolute()), "force": force}, as_json)


@store.command()
def reindex(
    context: typer.Context,
    embedder: ByEmbedder = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="Go back to the former generation.")] = False,
    prune: Annotated[bool, typer.Option("--prune", help="Delete former and unfinished generations.")] = False,
    min_overlap: Annotated[
        float,
        typer.Option(min=0.0, max=1.0, help="Least share of what stored queries found that they must find again."),
    ] = 0.3,
    force: Annotated[
        bool, typer.Option("--force", help="Also make vectors that fit anew, and go on where too little is found.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Give every memory its vectors by the embedder and the keyword recipe in force. Reading goes on all the time.

    Broken off, it goes on where it was. The former generation is kept until --prune.
    """
    if rollback and prune:
        fail("--rollback and --prune are two different things", as_json=as_json)
    kind = JobKind.ROLLBACK if rollback else JobKind.PRUNE if prune else JobKind.REINDEX
    _job(context, {"kind": kind, "embedder": embedder, "force": force, "min_overlap": min_overlap}, as_json)
    if embedder is not None and not as_json and kind is not JobKind.PRUNE:
        say(f'now write embedder = "{embedder}" under [service] in the settings, or the next start finds a mismatch')


@store.command()
def migrate(
    context: typer.Context,
    to: Annotated[str, typer.Option(help="`edge` for the embedded store, or the URL of a Qdrant server.")],
    force: Annotated[
        bool, typer.Option("--force", help="Also into a store that is not empty: make it the same.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Copy the whole store to another engine. The service goes on with the old one until its settings name the new one.

    What is written in between is brought over by doing it again with --force, which copies only what differs.
    """
    _job(context, {"kind": JobKind.MIGRATE, "to": to, "force": force}, as_json)


def _job(context: typer.Context, payload: dict[str, Any], as_json: bool) -> None:
    settings = settings_of(context, as_json=as_json)
    result = run(_work(settings, payload, show_progress=not as_json), as_json=as_json)
    if as_json:
        print_json(result)
        return
    show(table(None, ["", ""], [[name.replace("_", " "), _shown(value)] for name, value in result.items()]))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


async def _ask(settings: Settings) -> dict[str, Any]:
    async with _backend(settings) as backend:
        return await backend.call(STORE_INFO, {}, budget=BUDGET)


@asynccontextmanager
async def _backend(settings: Settings) -> AsyncIterator[OperationClient]:
    """The service where it owns the store; a server's store is worked on from here, whichever workers share it."""
    if settings.service.qdrant_url is None:
        async with open_client(settings) as backend:
            yield backend
    else:
        async with open_core(settings, with_model=False) as core:
            yield LocalOperationClient(core.operations)


async def _work(settings: Settings, payload: dict[str, Any], *, show_progress: bool) -> dict[str, Any]:
    """Start a job and wait for its end; its result. Raises `StoreError` with what went wrong."""
    async with _backend(settings) as backend:
        started = await backend.call(STORE_JOB_START, payload, budget=BUDGET)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=errors, disable=not show_progress, transient=True) as progress:
            task = progress.add_task(payload["kind"], total=None)
            while True:
                status = await backend.call(STORE_JOB_STATUS, {}, budget=BUDGET)
                if status.get("id") != started["id"]:
                    raise StoreError("the service was restarted meanwhile; do it again, it goes on where it was")
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
    raise StoreError(status["error"] or "it was broken off")
