"""One memory: its text, its versions, what it is related to, where it was given and whether that helped."""

from math import cos, pi, sin
from typing import Literal

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Key
from worker.console.app import Console
from worker.console.errors import PageError
from worker.console.memory_words import MemoryRow, memory_row
from worker.console.rendering import Shown
from worker.console.visits import Visit, checked
from worker.console.words import fit_text, in_address
from worker.domain.memory import Memory, Relation
from worker.operations.registry import SHOW, UPDATE
from worker.operations.results import MemoryHistory, UsageCounts

MOST_NODES = 24
"""Related memories that the picture shows."""

WIDTH, HEIGHT, RADIUS = 720, 300, 110
LABEL_CHARS = 22


class Node(BaseModel):
    """A memory in the picture, at its place, with the kind of its relation."""

    id: str
    label: str
    kind: str
    x: float
    y: float


class MemoryPage(BaseModel):
    """A memory with its history; `nodes` are its neighbours in the picture, `relations` those that it has itself."""

    memory: MemoryRow
    context: str | None
    source: str | None
    channel: str | None
    entities: list[str]
    cues: list[str]
    earlier: list[MemoryRow]
    later: list[MemoryRow]
    related: list[MemoryRow]
    relations: list[Relation]
    nodes: list[Node]
    usage: UsageCounts | None


class MemoryQuery(BaseModel):
    """The memory of a page."""

    id: Key | None = None


class PinForm(BaseModel):
    """A memory, and whether to pin it."""

    id: Key
    pinned: Literal["yes", "no"]


def routes(console: Console) -> list[Route]:
    return [*console.page("/memory", show), *console.action("/memory/pin", pin)]


async def show(visit: Visit) -> Shown:
    memory_id = visit.query(MemoryQuery).id
    if memory_id is None:
        raise PageError(404, "The address names no memory.")
    page = page_of(await visit.ask(SHOW, {"id": memory_id}))
    return Shown("memory.html", page.memory.text[:80], page)


async def pin(visit: Visit) -> Response:
    """Pin the memory of the form, or no longer."""
    form = checked(PinForm, {"id": visit.text("id"), "pinned": visit.text("pinned")})
    await visit.ask(UPDATE, {"id": form.id, "changes": {"pinned": form.pinned == "yes"}})
    return visit.lead_on(f"/memory?id={in_address(form.id)}")


def page_of(found: MemoryHistory) -> MemoryPage:
    memory = found.memory
    neighbours = {one.id: one for one in (*found.later, *found.earlier, *found.related)}
    return MemoryPage(
        memory=memory_row(memory),
        context=memory.context,
        source=memory.source,
        channel=memory.channel,
        entities=list(memory.entities),
        cues=[cue.text for cue in memory.cues],
        earlier=[memory_row(one) for one in found.earlier],
        later=[memory_row(one) for one in found.later],
        related=[memory_row(one) for one in found.related],
        relations=list(memory.relations),
        nodes=nodes_of(memory, list(neighbours.values())[:MOST_NODES]),
        usage=found.usage,
    )


def nodes_of(memory: Memory, neighbours: list[Memory]) -> list[Node]:
    """Place the neighbours of a memory on a circle around it."""
    nodes = []
    for number, one in enumerate(neighbours):
        angle = 2 * pi * number / len(neighbours) - pi / 2
        x, y = WIDTH / 2 + 2.4 * RADIUS * cos(angle), HEIGHT / 2 + RADIUS * sin(angle)
        label, kind = fit_text(one.content, LABEL_CHARS), _kind(memory, one)
        nodes.append(Node(id=one.id, label=label, kind=kind, x=round(x, 1), y=round(y, 1)))
    return nodes


def _kind(memory: Memory, other: Memory) -> str:
    """Return how another memory is related to this one."""
    if memory.superseded_by == other.id:
        return "replaced this one"
    if other.superseded_by == memory.id:
        return "was replaced by this one"
    own = next((relation.kind for relation in memory.relations if relation.target == other.id), None)
    back = next((relation.kind for relation in other.relations if relation.target == memory.id), None)
    return own or (f"{back} this one" if back else "related")
