"""Commands that write, list and search memories."""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import Progress

from worker.cli.backend import Backend, open_backend
from worker.cli.options import (
    Agent,
    AsJson,
    Tenant,
    User,
    run,
    settings_of,
)
from worker.cli.output import errors, fail, print_json, say, scores, show, table
from worker.models import Memory, MemoryType
from worker.operations import EXPORT, FORGET, PUT, RECALL, REMEMBER
from worker.transfer import Rejected, read_lines, to_line

BATCH = 100
WRITE_BUDGET = 60.0


def remember(
    context: typer.Context,
    content: Annotated[str, typer.Argument(help="What is to be remembered; - reads standard input.")],
    kind: Annotated[MemoryType, typer.Option("--type", help="What kind of memory it is.")] = MemoryType.FACT,
    memory_id: Annotated[str | None, typer.Option("--id", help="Its id; the same id again is an update.")] = None,
    importance: Annotated[float, typer.Option(min=0.0, max=1.0, help="How important it is, 0 to 1.")] = 0.5,
    entity: Annotated[list[str] | None, typer.Option(help="A name it is about; may be repeated.")] = None,
    supersedes: Annotated[list[str] | None, typer.Option(help="Id of a memory that it makes out of date.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only this user may see it.")] = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Remember one thing. Saying the same twice stores it once."""
    settings = settings_of(context, as_json=as_json)
    memory: dict[str, Any] = {
        "content": sys.stdin.read() if content == "-" else content,
        "type": kind.value,
        "importance": importance,
        "entities": entity or [],
        "relations": [{"kind": "supersedes", "target": target} for target in supersedes or []],
        "scope": {"user": user} if user else {},
        "source": "cli",
    }
    if memory_id:
        memory["id"] = memory_id

    async def work() -> dict[str, Any]:
        async with open_backend(settings) as backend:
            return await backend.call(REMEMBER, {"tenant": tenant, "memory": memory})

    done = run(work(), as_json=as_json)
    print_json(done) if as_json else say(f"{done['stored']}: {done['id']}")


def forget(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(help="Ids of memories to delete.")],
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Delete memories for good."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> dict[str, Any]:
        async with open_backend(settings) as backend:
            return await backend.call(FORGET, {"tenant": tenant, "ids": ids})

    done = run(work(), as_json=as_json)
    print_json(done) if as_json else say(f"forgotten: {done['forgotten']} of {len(ids)}")
    if done["forgotten"] < len(ids):
        raise typer.Exit(1)


def import_memories(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="JSON Lines, one memory per line.", exists=True, dir_okay=False)],
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Import memories from a file. Lines that cannot be taken are reported, and nothing is stored twice."""
    settings = settings_of(context, as_json=as_json)
    memories, rejected = _read(file, as_json=as_json)

    async def work() -> dict[str, int]:
        async with open_backend(settings) as backend:
            return await put_all(backend, tenant, memories, show_progress=not as_json)

    done: dict[str, Any] = run(work(), as_json=as_json)
    if as_json:
        print_json({**done, "rejected": [{"line": entry.line, "reason": entry.reason} for entry in rejected]})
    else:
        say(", ".join(f"{count} {name.replace('_', ' ')}" for name, count in done.items() if count) or "nothing to do")
        for entry in rejected:
            errors.print(f"line {entry.line}: {entry.reason}", markup=False)
    if rejected:
        raise typer.Exit(1)


def _read(file: Path, *, as_json: bool) -> tuple[list[Memory], list[Rejected]]:
    try:
        with file.open(encoding="utf-8") as lines:
            entries = [entry for _, entry in read_lines(lines, datetime.now(UTC))]
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{file}: {error}", as_json=as_json)
    memories = [entry for entry in entries if isinstance(entry, Memory)]
    return memories, [entry for entry in entries if isinstance(entry, Rejected)]


async def put_all(backend: Backend, tenant: str, memories: Sequence[Memory], *, show_progress: bool) -> dict[str, int]:
    """Store memories in batches; the sums of what the batches report."""
    totals: dict[str, int] = {}
    with Progress(console=errors, disable=not show_progress, transient=True) as progress:
        task = progress.add_task("importing", total=len(memories))
        for batch in _batches(memories):
            payload = {"tenant": tenant, "memories": [json.loads(to_line(memory)) for memory in batch]}
            for name, count in (await backend.call(PUT, payload, budget=WRITE_BUDGET)).items():
                totals[name] = totals.get(name, 0) + count
            progress.advance(task, len(batch))
    return totals


def _batches(memories: Sequence[Memory]) -> Iterator[Sequence[Memory]]:
    for start in range(0, len(memories), BATCH):
        yield memories[start : start + BATCH]


def export_memories(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Where to write JSON Lines; standard output by default.")] = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Export every memory of a tenant as JSON Lines; `import` reads it back."""
    settings = settings_of(context, as_json=as_json)

    async def work() -> list[dict[str, Any]]:
        async with open_backend(settings) as backend:
            return [memory async for memory in _all_memories(backend, tenant)]

    memories = run(work(), as_json=as_json)
    lines = "".join(json.dumps(memory, ensure_ascii=False) + "\n" for memory in memories)
    if file is None:
        sys.stdout.write(lines)
        return
    file.write_text(lines, encoding="utf-8")
    print_json({"exported": len(memories), "file": str(file)}) if as_json else say(f"exported: {len(memories)}")


async def _all_memories(backend: Backend, tenant: str) -> Any:
    cursor: str | None = None
    while True:
        page = await backend.call(EXPORT, {"tenant": tenant, "cursor": cursor}, budget=WRITE_BUDGET)
        for memory in page["memories"]:
            yield memory
        cursor = page["cursor"]
        if cursor is None:
            return


def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most memories to show.")] = 10,
    kinds: Annotated[list[MemoryType] | None, typer.Option("--type", help="Only these types; may be repeated.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Only about this name; may be repeated.")] = None,
    user: User = None,
    agent: Agent = "main",
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Search memories, and see the scores."""
    settings = settings_of(context, as_json=as_json)
    payload = {
        "query": query,
        "limit": limit,
        "types": kinds or [],
        "entities": entity or [],
        "scope": {"tenant": tenant, "user": user},
        "agent_id": agent,
    }

    async def work() -> dict[str, Any]:
        async with open_backend(settings) as backend:
            return await backend.call(RECALL, payload)

    found = run(work(), as_json=as_json)
    if as_json:
        print_json(found)
        return
    if not found["memories"]:
        say("nothing found")
        return
    rows = [[*scores(hit), hit["type"], hit["id"], hit["text"]] for hit in found["memories"]]
    show(table(None, ["score", "cosine", "keyword", "type", "id", "memory"], rows))
    if found["degraded"]:
        errors.print(f"degraded: {found['degraded']}")
