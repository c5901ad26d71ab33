"""The list of memories: the newest, those with certain words, or those that a search finds, with their scores."""

from typing import Any, Literal

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Key, Name, Text
from worker.console.app import Console
from worker.console.errors import PageError
from worker.console.memory_words import MemoryRow, found_row, memory_row, usage_row
from worker.console.rendering import Shown
from worker.console.visits import Visit, checked
from worker.console.words import in_address
from worker.domain.memory import MemoryType
from worker.operations.registry import EXPORT, FORGET, RECALL, UNDO, UPDATE, USAGE
from worker.operations.requests import MAX_BATCH

PAGE = 50
MEANING, WORDS = "meaning", "words"


class MemoriesQuery(BaseModel):
    """What the list shows. `by` says how `q` is searched for; by meaning, it is what `user`, `project` and `agent` see.

    `undo` are ids of memories that were just forgotten.
    """

    q: Text | None = None
    by: Literal["meaning", "words"] = "meaning"
    type: MemoryType | None = None
    user: Name | None = None
    agent: Name | None = None
    project: Name | None = None
    since: Text | None = None
    until: Text | None = None
    never_used: bool = False
    cursor: str | None = None
    undo: list[Key] = []


class MemoriesPage(BaseModel):
    """A page of the list, of `most` memories at most.

    `searched` says that the rows have scores, `degraded` that the search lacks a part.
    """

    rows: list[MemoryRow]
    most: int = PAGE
    cursor: str | None
    query: MemoriesQuery
    types: list[str]
    searched: bool = False
    degraded: str | None = None


def routes(console: Console) -> list[Route]:
    return [
        *console.page("/memories", show),
        *console.action("/memories/forget", forget),
        *console.action("/memories/undo", undo),
        *console.action("/memories/type", change_type),
    ]


async def show(visit: Visit) -> Shown:
    query = visit.query(MemoriesQuery)
    if query.never_used:
        page = await _never_used(visit, query)
    elif query.q and query.by == MEANING:
        page = await _found(visit, query, query.q)
    else:
        page = await _listed(visit, query)
    return Shown("memories.html", "Memories", page, part="memory_rows.html")


def _page(query: MemoriesQuery, rows: list[MemoryRow], cursor: str | None = None, **more: Any) -> MemoriesPage:
    return MemoriesPage(rows=rows, cursor=cursor, query=query, types=[kind.value for kind in MemoryType], **more)


async def _listed(visit: Visit, query: MemoriesQuery) -> MemoriesPage:
    payload = {
        "words": query.q,
        "types": [query.type.value] if query.type else [],
        "user": query.user,
        "project": query.project,
        "since": query.since,
        "until": query.until,
        "newest": query.q is None,
        "limit": PAGE,
        "cursor": query.cursor,
        **({"agent": query.agent} if query.agent else {}),
    }
    found = await visit.ask(EXPORT, payload)
    return _page(query, [memory_row(memory) for memory in found.memories], found.cursor)


async def _found(visit: Visit, query: MemoriesQuery, words: str) -> MemoriesPage:
    """Search as an agent's tool would, without thresholds."""
    scope = {"user": query.user, "agent": query.agent, "project": query.project}
    payload = {
        "query": words,
        "scope": scope,
        "types": [query.type.value] if query.type else [],
        "since": query.since,
        "until": query.until,
        "ungated": True,
        "history": True,
        "limit": PAGE,
    }
    found = await visit.ask_scoped(RECALL, payload)
    rows = [found_row(memory) for memory in found.memories]
    return _page(query, rows, searched=True, degraded=found.degraded)


async def _never_used(visit: Visit, query: MemoriesQuery) -> MemoriesPage:
    """List what was given and that no reported answer used, the most often given first, whosever it is."""
    found = await visit.ask(USAGE, {"never_used": True, "limit": PAGE})
    return _page(query, [usage_row(one) for one in found.memories])


def _chosen(visit: Visit) -> list[str]:
    """Return the ids that were chosen. Raise `PageError` if there are none or too many."""
    ids = [value for value in visit.form.getlist("id") if isinstance(value, str) and value]
    if not ids:
        raise PageError(422, "Choose at least one memory.")
    if len(ids) > MAX_BATCH:
        raise PageError(422, f"Choose at most {MAX_BATCH} memories at a time.")
    return ids


async def forget(visit: Visit) -> Response:
    ids = _chosen(visit)
    done = await visit.ask(FORGET, {"ids": ids})
    undoing = "?" + "&".join(f"undo={in_address(key)}" for key in ids) if done.undo_s else ""
    return visit.lead_on("/memories" + undoing)


async def undo(visit: Visit) -> Response:
    restored = (await visit.ask(UNDO, {"ids": _chosen(visit)})).restored
    return visit.lead_on(f"/memory?id={in_address(restored[0].id)}" if len(restored) == 1 else "/memories")


class TypeForm(BaseModel):
    """A type for the chosen memories."""

    type: MemoryType


async def change_type(visit: Visit) -> Response:
    ids, wanted = _chosen(visit), checked(TypeForm, {"type": visit.text("type")}).type
    for key in ids:
        await visit.ask(UPDATE, {"id": key, "changes": {"type": wanted.value}})
    return visit.lead_on("/memories")
