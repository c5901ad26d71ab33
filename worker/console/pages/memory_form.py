"""The form of a memory: a new one, one that replaces another, or changes of one."""

from typing import Any

from pydantic import BaseModel
from starlette.responses import Response
from starlette.routing import Route

from hooks.contract import Key
from worker.console.app import Console
from worker.console.errors import PageError
from worker.console.rendering import Shown
from worker.console.visits import Visit
from worker.console.words import in_address
from worker.domain.errors import MeeseeksError
from worker.domain.memory import Memory, MemoryType
from worker.operations.registry import REMEMBER, SHOW, UPDATE
from worker.operations.statuses import status_of

FIELDS = ("content", "type", "importance", "user", "agent", "project", "context", "entities", "valid_until", "cues")


class MemoryForm(BaseModel):
    """The values of the form. `id` is the memory to change, `supersedes` the one that the new one replaces."""

    values: dict[str, str]
    types: list[str]
    id: str | None = None
    supersedes: str | None = None
    replaced_text: str | None = None
    error: str | None = None


class FormQuery(BaseModel):
    """Which memory to change, or to replace."""

    id: Key | None = None
    supersedes: Key | None = None


def routes(console: Console) -> list[Route]:
    return [
        *console.page("/memory/new", new),
        *console.page("/memory/edit", edit),
        *console.action("/memory/save", save),
    ]


async def new(visit: Visit) -> Shown:
    replaced = visit.query(FormQuery).supersedes
    if replaced is None:
        return _shown(_form({}))
    memory = (await visit.ask(SHOW, {"id": replaced})).memory
    return _shown(_form(_values(memory), supersedes=memory.id, replaced_text=memory.content))


async def edit(visit: Visit) -> Shown:
    memory_id = visit.query(FormQuery).id
    if memory_id is None:
        raise PageError(404, "The address names no memory.")
    memory = (await visit.ask(SHOW, {"id": memory_id})).memory
    return _shown(_form(_values(memory), id=memory.id))


def _form(values: dict[str, str], **more: Any) -> MemoryForm:
    filled = {"type": MemoryType.FACT.value, "importance": "0.5", **values}
    types = [kind.value for kind in MemoryType]
    return MemoryForm(values={name: filled.get(name, "") for name in FIELDS}, types=types, **more)


def _shown(form: MemoryForm) -> Shown:
    title = "Change a memory" if form.id else "Replace a memory" if form.supersedes else "Add a memory"
    return Shown("memory_form.html", title, form, 422 if form.error else 200)


def _values(memory: Memory) -> dict[str, str]:
    scope = memory.scope
    return {
        "content": memory.content,
        "type": memory.type.value,
        "importance": f"{memory.importance:g}",
        "user": scope.user or "",
        "agent": scope.agent or "",
        "project": scope.project or "",
        "context": memory.context or "",
        "entities": ", ".join(memory.entities),
        "valid_until": memory.valid_until.isoformat() if memory.valid_until else "",
        "cues": "\n".join(cue.text for cue in memory.cues),
    }


async def save(visit: Visit) -> Shown | Response:
    """Store the memory; what is wrong with it is said in the form, which keeps what was written."""
    values = {name: visit.text(name) for name in FIELDS}
    memory_id, supersedes = visit.text("id") or None, visit.text("supersedes") or None
    try:
        fields = fields_of(values)
        if memory_id is not None:
            await visit.ask(UPDATE, {"id": memory_id, "changes": fields})
            return visit.lead_on(f"/memory?id={in_address(memory_id)}")
        relations = [{"kind": "supersedes", "target": supersedes}] if supersedes else []
        stored = await visit.ask(REMEMBER, {"memory": {**_given(fields), "relations": relations}})
        return visit.lead_on(f"/memory?id={in_address(stored.id)}")
    except MeeseeksError as error:
        if status_of(error) != 422:
            raise
        return _shown(_form(values, id=memory_id, supersedes=supersedes, error=str(error)))
    except PageError as error:
        return _shown(_form(values, id=memory_id, supersedes=supersedes, error=error.detail))


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without those that are left empty."""
    return {name: value for name, value in fields.items() if value not in (None, [], "")}


def fields_of(values: dict[str, str]) -> dict[str, Any]:
    """Return the fields of a memory. Raise `PageError` for an importance that is no number."""
    try:
        importance = float(values["importance"] or "0.5")
    except ValueError as error:
        raise PageError(422, "importance: write a number from 0 to 1") from error
    return {
        "content": values["content"],
        "type": values["type"],
        "importance": importance,
        "scope": {name: values[name] or None for name in ("user", "agent", "project")},
        "context": values["context"] or None,
        "entities": [one.strip() for one in values["entities"].split(",") if one.strip()],
        "valid_until": values["valid_until"] or None,
        "cues": [line.strip() for line in values["cues"].splitlines() if line.strip()],
    }
