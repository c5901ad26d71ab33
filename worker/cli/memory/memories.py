"""Commands that write, list and search memories."""

import json
import sys
from typing import Annotated, Any

import typer

from worker.cli.backend import open_client
from worker.cli.options import Agent, AsJson, Project, Tenant, User, run, settings_of
from worker.cli.output import errors, fail, print_json, say, scores, show, table
from worker.domain.kinds import Budget
from worker.domain.memory import MemoryType
from worker.operations.memories import EXPORT, FORGET, RELATE, REMEMBER, SHOW, UPDATE
from worker.operations.payloads import MAX_BATCH
from worker.operations.requests import RECALL
from worker.settings.injection import Settings


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
    done = _ask(settings, REMEMBER, {"tenant": tenant, "memory": memory}, as_json=as_json)
    print_json(done) if as_json else say(f"{done['stored']}: {done['id']}")


def forget(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(help="Ids of memories to delete.")],
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Delete memories for good, with every mention of them in others."""
    settings = settings_of(context, as_json=as_json)
    done = _ask(settings, FORGET, {"tenant": tenant, "ids": ids}, as_json=as_json)
    print_json(done) if as_json else say(f"forgotten: {done['forgotten']} of {len(ids)}")
    if done["forgotten"] < len(ids):
        raise typer.Exit(1)


def update(
    context: typer.Context,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="Which memory.")],
    content: Annotated[str | None, typer.Argument(help="Its new text; - reads standard input.")] = None,
    kind: Annotated[MemoryType | None, typer.Option("--type", help="What kind of memory it is.")] = None,
    importance: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="How important it is, 0 to 1.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Names it is about, instead of those it has.")] = None,
    valid_until: Annotated[
        str | None, typer.Option(help="From then on it is not recalled; `never` takes that back.")
    ] = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Change a memory; what is not said stays as it is. A new text is its next version."""
    settings = settings_of(context, as_json=as_json)
    given = {
        "content": sys.stdin.read() if content == "-" else content,
        "type": kind.value if kind else None,
        "importance": importance,
        "entities": entity,
        "valid_until": valid_until,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if valid_until == "never":
        changes["valid_until"] = None
    if not changes:
        fail("nothing is to be changed; give a new text or an option", as_json=as_json)
    done = _ask(settings, UPDATE, {"tenant": tenant, "id": memory_id, "changes": changes}, as_json=as_json)
    memory = done["memory"]
    print_json(done) if as_json else say(f"updated: {memory['id']}, version {memory.get('version', 1)}")


def relate(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Id of the memory that gets the relation.")],
    kind: Annotated[str, typer.Argument(help="Any word; `updates` and `supersedes` make the target out of date.")],
    target: Annotated[str, typer.Argument(help="Id of the memory that it points at.")],
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Relate a memory to another one."""
    settings = settings_of(context, as_json=as_json)
    payload = {"tenant": tenant, "source": source, "kind": kind, "target": target}
    done = _ask(settings, RELATE, payload, as_json=as_json)
    print_json(done) if as_json else say(f"{source} {kind} {target}")


def show_memory(
    context: typer.Context,
    memory_id: Annotated[str, typer.Argument(metavar="ID", help="Which memory.")],
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Show one memory, what it replaced, what replaced it, and what is related to it."""
    settings = settings_of(context, as_json=as_json)
    found = _ask(settings, SHOW, {"tenant": tenant, "id": memory_id}, as_json=as_json)
    if as_json:
        print_json(found)
        return
    memory = found["memory"]
    say(memory["content"])
    fields = [[name, _cell(value)] for name, value in memory.items() if name != "content"]
    if found["usage"]:
        counts = found["usage"]
        fields.append(["used", f"by {counts['used']} of {counts['injected']} answers that were told it"])
    show(table(None, ["field", "value"], fields))
    for title, names in (("replaced", "earlier"), ("replaced by", "later"), ("related", "related")):
        if found[names]:
            show(table(title, ["id", "since", "memory"], [_row(entry)[1:] for entry in found[names]]))


def list_memories(
    context: typer.Context,
    kinds: Annotated[list[MemoryType] | None, typer.Option("--type", help="Only these types; may be repeated.")] = None,
    user: Annotated[str | None, typer.Option("--user", help="Only what this user owns.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_BATCH, help="Most memories to show.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Where the page before ended.")] = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """List memories page by page, superseded ones too, in no order that means anything."""
    settings = settings_of(context, as_json=as_json)
    payload = {"tenant": tenant, "types": kinds or [], "user": user, "limit": limit, "cursor": cursor}
    page = _ask(settings, EXPORT, payload, as_json=as_json)
    if as_json:
        print_json(page)
        return
    show(table(None, ["type", "id", "since", "memory"], [_row(entry) for entry in page["memories"]]))
    say(f"more: --cursor {page['cursor']}" if page["cursor"] else "that is all")


def _row(memory: dict[str, Any]) -> list[str]:
    outdated = " (out of date)" if memory.get("superseded_by") or memory.get("superseded_at") else ""
    since = (memory.get("created_at") or "")[:10]
    return [memory.get("type", MemoryType.FACT.value), memory["id"], since, memory["content"] + outdated]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _ask(settings: Settings, operation: str, payload: dict[str, Any], *, as_json: bool) -> dict[str, Any]:
    async def work() -> dict[str, Any]:
        async with open_client(settings) as backend:
            return await backend.call(operation, payload)

    return run(work(), as_json=as_json)


def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="What to look for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Most memories to show.")] = 10,
    kinds: Annotated[list[MemoryType] | None, typer.Option("--type", help="Only these types; may be repeated.")] = None,
    entity: Annotated[list[str] | None, typer.Option(help="Only about this name; may be repeated.")] = None,
    channel: Annotated[list[str] | None, typer.Option(help="Only said in this channel; may be repeated.")] = None,
    since: Annotated[str | None, typer.Option(help="Only noted or happened from this date on.")] = None,
    until: Annotated[str | None, typer.Option(help="Only noted or happened up to this date.")] = None,
    budget: Annotated[
        Budget | None, typer.Option(help="How widely to search: the words alone, every leg, or every part as well.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Also what was superseded since.")] = False,
    user: User = None,
    project: Project = None,
    agent: Agent = "main",
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Search memories, and see the scores and the legs that found them."""
    settings = settings_of(context, as_json=as_json)
    payload = {
        "query": query,
        "limit": limit,
        "types": kinds or [],
        "entities": entity or [],
        "channels": channel or [],
        "since": since,
        "until": until,
        "budget": budget,
        "history": history,
        "scope": {"tenant": tenant, "user": user, "project": project},
        "agent_id": agent,
    }
    found = _ask(settings, RECALL, payload, as_json=as_json)
    if as_json:
        print_json(found)
        return
    if not found["memories"]:
        say("nothing found")
        return
    rows = [[*scores(hit), ", ".join(hit["legs"]), hit["type"], hit["id"], hit["text"]] for hit in found["memories"]]
    show(table(None, ["score", "cosine", "keyword", "legs", "type", "id", "memory"], rows))
    if found["degraded"]:
        errors.print(f"degraded: {found['degraded']}")
