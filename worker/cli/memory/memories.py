"""Commands that write, list and search memories."""

import json
import sys
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Any

import typer

from worker.cli.backend import call
from worker.cli.options import Agent, Project, Tenant, User, Zone, checked_name
from worker.cli.output import answer, fail, note, printed_as_json, say, scores, show, table
from worker.domain.kinds import Budget
from worker.domain.memory import MemoryType
from worker.domain.zones import DEFAULT_ZONE, day_in, zone_of
from worker.operations.registry import EXPORT, FORGET, RECALL, RELATE, REMEMBER, SHOW, UNDO, UPDATE
from worker.operations.requests import MAX_BATCH
from worker.text.counts import counted

Several = list[str] | None
MemoryId = Annotated[str, typer.Argument(metavar="ID", help="Id of the memory.")]
Types = Annotated[list[MemoryType] | None, typer.Option("--type", help="Only this type; repeat for several.")]


def remember(
    context: typer.Context,
    content: Annotated[str, typer.Argument(help="Text to remember; `-` reads standard input.")],
    kind: Annotated[MemoryType, typer.Option("--type", help="Type of memory.")] = MemoryType.FACT,
    memory_id: Annotated[str | None, typer.Option("--id", help="Id; an existing id updates that memory.")] = None,
    importance: Annotated[float, typer.Option(min=0.0, max=1.0, help="Importance from 0 to 1.")] = 0.5,
    entity: Annotated[Several, typer.Option(help="Person or thing it is about; repeat for several.")] = None,
    supersedes: Annotated[Several, typer.Option(help="Id of a memory it replaces; repeat for several.")] = None,
    cue: Annotated[Several, typer.Option(help="Short message at which it would matter; repeat for several.")] = None,
    pin: Annotated[bool, typer.Option("--pin", help="Inject it whatever the message is.")] = False,
    user: Annotated[
        str | None, typer.Option("--user", callback=checked_name, help="Owner; only this user sees the memory.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", callback=checked_name, help="Only agents in this project see the memory.")
    ] = None,
    tenant: Tenant = "default",
) -> None:
    """Store a memory. The same text is stored only once."""
    memory: dict[str, Any] = {
        "content": sys.stdin.read() if content == "-" else content,
        "type": kind.value,
        "importance": importance,
        "entities": entity or [],
        "relations": [{"kind": "supersedes", "target": target} for target in supersedes or []],
        "scope": {name: value for name, value in (("user", user), ("project", project)) if value},
        "source": "cli",
    }
    memory |= ({"cues": cue} if cue else {}) | ({"id": memory_id} if memory_id else {})
    memory |= {"pinned": True} if pin else {}
    done = call(context, REMEMBER, {"tenant": tenant, "memory": memory, "again": True})
    answer(done, f"{done['stored']}: {done['id']}")


def forget(
    context: typer.Context,
    ids: Annotated[list[str], typer.Argument(help="Ids of the memories to delete.")],
    permanent: Annotated[
        bool, typer.Option("--permanent", help="Keep nothing for `undo`, also of earlier deletions of these.")
    ] = False,
    tenant: Tenant = "default",
) -> None:
    """Delete memories, and all references to them.

    While a service runs, it keeps them for ten minutes, for `undo` only.
    """
    done = call(context, FORGET, {"tenant": tenant, "ids": ids, "permanent": permanent})
    missing = len(set(ids)) - done["forgotten"]
    if not missing:
        hint = f"; for {done['undo_s'] // 60} minutes, `meeseeks undo` restores it" if done["undo_s"] else ""
        answer(done, f"deleted {done['forgotten']}{hint}")
        return
    if printed_as_json(done):
        raise typer.Exit(1)
    if len(ids) == 1:
        fail(f"there is no memory {ids[0]!r} in the tenant {tenant}; `meeseeks list` shows the ids")
    unknown = counted(missing, "of the ids is", "of the ids are")
    fail(f"deleted {done['forgotten']}; {unknown} unknown in the tenant {tenant}; `meeseeks list` shows the ids")


def undo(
    context: typer.Context,
    ids: Annotated[Several, typer.Argument(help="Ids of deleted memories (default: the latest deletion).")] = None,
    tenant: Tenant = "default",
) -> None:
    """Restore deleted memories within ten minutes: those of the latest deletion, or these."""
    done = call(context, UNDO, {"tenant": tenant, "ids": ids or []})
    if printed_as_json(done):
        return
    for memory in done["restored"]:
        say(f"restored {memory['id']}: {memory['content']}")
    if not done["restored"]:
        say("nothing to restore: what was deleted has been stored again since")


def update(
    context: typer.Context,
    memory_id: MemoryId,
    content: Annotated[str | None, typer.Argument(help="New text; `-` reads standard input.")] = None,
    kind: Annotated[MemoryType | None, typer.Option("--type", help="New type.")] = None,
    importance: Annotated[float | None, typer.Option(min=0.0, max=1.0, help="New importance from 0 to 1.")] = None,
    entity: Annotated[Several, typer.Option(help="New person or thing it is about; repeat for several.")] = None,
    valid_until: Annotated[str | None, typer.Option(help="Time of expiry; `never` removes it.")] = None,
    cue: Annotated[
        Several, typer.Option(help="New short message at which it would matter; repeat for several.")
    ] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--no-pin", help="Inject it whatever the message is, or no longer.")
    ] = None,
    tenant: Tenant = "default",
) -> None:
    """Change a memory. Fields you omit stay unchanged; new text creates a new version."""
    given = {
        "content": sys.stdin.read() if content == "-" else content,
        "type": kind.value if kind else None,
        "importance": importance,
        "entities": entity,
        "valid_until": valid_until,
        "cues": cue,
        "pinned": pin,
    }
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if valid_until == "never":
        changes["valid_until"] = None
    if not changes:
        fail("nothing to change; give a new text or an option")
    done = call(context, UPDATE, {"tenant": tenant, "id": memory_id, "changes": changes, "again": True})
    memory = done["memory"]
    answer(done, f"updated: {memory['id']}, version {memory.get('version', 1)}")


def relate(
    context: typer.Context,
    source: Annotated[str, typer.Argument(help="Id of the memory that the relation starts from.")],
    kind: Annotated[str, typer.Argument(help="Any word; `updates` and `supersedes` mark the target as outdated.")],
    target: Annotated[str, typer.Argument(help="Id of the memory that the relation points to.")],
    tenant: Tenant = "default",
) -> None:
    """Add a relation from one memory to another."""
    payload = {"tenant": tenant, "source": source, "kind": kind, "target": target}
    done = call(context, RELATE, payload)
    answer(done, f"{source} {kind} {target}")


def show_memory(context: typer.Context, memory_id: MemoryId, tenant: Tenant = "default") -> None:
    """Show a memory, its earlier and later versions, and related memories."""
    found = call(context, SHOW, {"tenant": tenant, "id": memory_id})
    if printed_as_json(found):
        return
    memory = found["memory"]
    say(memory["content"])
    fields = [[name, _cell(value)] for name, value in memory.items() if name != "content"]
    if found["usage"]:
        counts = found["usage"]
        fields.append(["used", f"in {counts['used']} of {counts['injected']} answers that received it"])
    show(table(None, ["field", "value"], fields))
    for title, names in (("replaced", "earlier"), ("replaced by", "later"), ("related", "related")):
        if found[names]:
            show(table(title, ["id", "since", "memory"], [_row(entry)[1:] for entry in found[names]]))


def list_memories(
    context: typer.Context,
    kinds: Types = None,
    user: Annotated[
        str | None, typer.Option("--user", callback=checked_name, help="Only memories owned by this user.")
    ] = None,
    project: Annotated[
        str | None, typer.Option("--project", callback=checked_name, help="Only memories of this project.")
    ] = None,
    words: Annotated[str | None, typer.Option("--text", help="Only with all of these words in the text.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MAX_BATCH, help="Number of memories to show.")] = 20,
    cursor: Annotated[str | None, typer.Option(help="Cursor printed at the end of the previous page.")] = None,
    tenant: Tenant = "default",
) -> None:
    """List memories, the newest first and page by page, outdated ones too."""
    where = {"types": kinds or [], "user": user, "project": project, "words": words}
    page = call(context, EXPORT, {"tenant": tenant, **where, "newest": True, "limit": limit, "cursor": cursor})
    if printed_as_json(page):
        return
    if not page["memories"]:
        say("no memories" if not any(where.values()) else "no memories like that")
        return
    zone = zone_of(page.get("time_zone", DEFAULT_ZONE))
    rows = [[*_row(entry, zone)[:3], _owner(entry), _row(entry)[3]] for entry in page["memories"]]
    show(table(None, ["type", "id", "since", "owner", "memory"], rows))
    if page["cursor"]:
        say(f"more: --cursor {page['cursor']}")


def _owner(memory: dict[str, Any]) -> str:
    """Return who sees a memory; empty if everybody does."""
    owners = memory.get("scope") or {}
    return ", ".join(name if kind == "user" else f"{kind} {name}" for kind, name in owners.items() if name)


def _row(memory: dict[str, Any], zone: tzinfo = UTC) -> list[str]:
    outdated = " (outdated)" if memory.get("superseded_by") or memory.get("superseded_at") else ""
    created = memory.get("created_at")
    since = day_in(datetime.fromisoformat(created), zone).isoformat() if created else ""
    context = f" [{memory['context']}]" if memory.get("context") else ""
    return [memory.get("type", MemoryType.FACT.value), memory["id"], since, memory["content"] + context + outdated]


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def recall(
    context: typer.Context,
    query: Annotated[str, typer.Argument(help="Text to search for.")],
    limit: Annotated[int, typer.Option(min=1, max=100, help="Number of memories to show.")] = 10,
    kinds: Types = None,
    entity: Annotated[Several, typer.Option(help="Only about this person or thing; repeat for several.")] = None,
    channel: Annotated[Several, typer.Option(help="Only from this channel; repeat for several.")] = None,
    since: Annotated[str | None, typer.Option(help="Only noted or happened on or after this date.")] = None,
    until: Annotated[str | None, typer.Option(help="Only noted or happened on or before this date.")] = None,
    time: Annotated[
        str | None, typer.Option(help="Only noted or happened then, such as 2026-03, or last week.")
    ] = None,
    budget: Annotated[
        Budget | None, typer.Option(help="low: search with the message only; mid: all searches; high: each part too.")
    ] = None,
    history: Annotated[bool, typer.Option("--history", help="Include outdated memories.")] = False,
    tz: Zone = None,
    user: User = None,
    project: Project = None,
    agent: Agent = "main",
    tenant: Tenant = "default",
) -> None:
    """Search memories and show their scores and the searches that found them."""
    payload = {
        "query": query,
        "limit": limit,
        "types": kinds or [],
        "entities": entity or [],
        "channels": channel or [],
        "since": since,
        "until": until,
        "time": time,
        "budget": budget,
        "history": history,
        "tz": tz,
        "scope": {"tenant": tenant, "user": user, "project": project},
        "agent_id": agent,
    }
    found = call(context, RECALL, payload)
    if printed_as_json(found):
        return
    if not found["memories"]:
        say("nothing found")
        return
    rows = [[*scores(hit), ", ".join(hit["legs"]), hit["type"], hit["id"], hit["text"]] for hit in found["memories"]]
    show(table(None, ["score", "cosine", "keyword", "found by", "type", "id", "memory"], rows))
    if found["degraded"]:
        note(f"degraded: {found['degraded']}")
