"""The form of a memory: a new one, one that replaces another, or changes of one."""

from collections.abc import Collection, Mapping
from http import HTTPStatus
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

OWNERS = ("user", "agent", "project")
FIELDS = ("content", "type", "importance", *OWNERS, "context", "entities", "valid_until", "cues")

CHANGED_MEANWHILE = "Somebody else has changed this memory since. Save again to replace theirs with yours."


class MemoryForm(BaseModel):
    """The values of the form, those `was` when it was opened, and `theirs` of somebody who saved meanwhile.

    `id` is the memory to change, `supersedes` the one that the new one replaces.
    """

    values: dict[str, str]
    was: dict[str, str]
    theirs: dict[str, str] = {}
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


def _form(values: Mapping[str, str], was: Mapping[str, str] | None = None, **more: Any) -> MemoryForm:
    filled = {"type": MemoryType.FACT.value, "importance": "0.5", **values}
    types = [kind.value for kind in MemoryType]
    known = {name: filled.get(name, "") for name in FIELDS}
    return MemoryForm(values=known, was=dict(known if was is None else was), types=types, **more)


def _shown(form: MemoryForm, status: HTTPStatus | None = None) -> Shown:
    title = "Change a memory" if form.id else "Replace a memory" if form.supersedes else "Add a memory"
    return Shown("memory_form.html", title, form, status or (422 if form.error else 200))


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
    sent = {name: _plain(visit.text(name)) for name in FIELDS if name in visit.form}
    memory_id, supersedes = visit.text("id") or None, visit.text("supersedes") or None
    shown = {name: _plain(visit.text(f"was.{name}")) for name in FIELDS if f"was.{name}" in visit.form}
    try:
        if memory_id is not None:
            return await _change(visit, memory_id, sent, shown)
        relations = [{"kind": "supersedes", "target": supersedes}] if supersedes else []
        fields = _given(fields_of({name: sent.get(name, "") for name in FIELDS}))
        stored = await visit.ask(REMEMBER, {"memory": {**fields, "relations": relations}})
        return visit.lead_on(f"/memory?id={in_address(stored.id)}")
    except MeeseeksError as error:
        if status_of(error) != 422:
            raise
        return _shown(_form(sent, was=shown, id=memory_id, supersedes=supersedes, error=str(error)))
    except PageError as error:
        return _shown(_form(sent, was=shown, id=memory_id, supersedes=supersedes, error=error.detail))


async def _change(visit: Visit, memory_id: str, sent: Mapping[str, str], shown: Mapping[str, str]) -> Shown | Response:
    """Change what was changed in the form, and nothing that somebody else has changed since it was opened."""
    memory = (await visit.ask(SHOW, {"id": memory_id})).memory
    present = {name: _plain(value) for name, value in _values(memory).items()}
    was, wanted = {**present, **shown}, {**present, **sent}
    edited = {name for name in FIELDS if wanted[name] != was[name]}
    theirs = {name: present[name] for name in edited - {"cues"} if present[name] not in (was[name], wanted[name])}
    if theirs:
        form = _form(wanted, was=present, id=memory_id, theirs=theirs, error=CHANGED_MEANWHILE)
        return _shown(form, HTTPStatus.PRECONDITION_FAILED)
    if changes := changes_of(memory, was, wanted, edited):
        await visit.ask(UPDATE, {"id": memory_id, "changes": changes})
    return visit.lead_on(f"/memory?id={in_address(memory_id)}")


def changes_of(
    memory: Memory, was: Mapping[str, str], wanted: Mapping[str, str], edited: Collection[str]
) -> dict[str, Any]:
    """Return the changes of a memory that the edited fields of its form make.

    Cues that were left as they were keep their origin. A new text would drop them, so they are given with it.
    """
    now = {name: wanted[name] if name in edited else value for name, value in _values(memory).items()}
    fields = fields_of(now)
    names = {"scope" if name in OWNERS else name for name in edited}
    if {"content", "cues"} & names:
        names.add("cues")
        fields["cues"] = _cues(memory, _lines(was["cues"]), _lines(wanted["cues"]))
    return {name: fields[name] for name in names}


def _cues(memory: Memory, was: list[str], wanted: list[str]) -> list[Any]:
    """Return the cues of the memory without the lines that are gone, and with those that are new."""
    gone, known = set(was) - set(wanted), {cue.text for cue in memory.cues}
    kept = [cue.model_dump(mode="json") for cue in memory.cues if cue.text not in gone]
    return [*kept, *(line for line in wanted if line not in known)]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _plain(text: str) -> str:
    """Return a text as forms send it back, whose lines end differently and which has no blanks around it."""
    return text.replace("\r\n", "\n").strip()


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields without those that are left empty."""
    return {name: value for name, value in fields.items() if value not in (None, [], "")}


def fields_of(values: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a memory. Raise `PageError` for an importance that is no number."""
    try:
        importance = float(values["importance"] or "0.5")
    except ValueError as error:
        raise PageError(422, "importance: write a number from 0 to 1") from error
    return {
        "content": values["content"],
        "type": values["type"],
        "importance": importance,
        "scope": {name: values[name] or None for name in OWNERS},
        "context": values["context"] or None,
        "entities": [one.strip() for one in values["entities"].split(",") if one.strip()],
        "valid_until": values["valid_until"] or None,
        "cues": _lines(values["cues"]),
    }
