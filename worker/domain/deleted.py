"""Deleted memories, kept for a short time so that a deletion can be undone."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from .memory import DomainModel, Memory, Relation

UNDO_S = 600
"""Seconds in which a deletion can be undone."""


class Reference(DomainModel):
    """How another memory referred to a deleted one: its relations to it, and since when it was superseded by it."""

    id: str
    relations: tuple[Relation, ...] = ()
    superseded: bool = False
    superseded_at: datetime | None = None


class DeletedMemory(DomainModel):
    """A deleted memory and the references to it that were removed with it."""

    memory: Memory
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Erasure:
    """A deleted memory whose texts stored receipts lose when it is `due`."""

    tenant: str
    id: str
    due: datetime


def deleted_with_references(memory: Memory, referring: Iterable[Memory]) -> DeletedMemory:
    """Return what restores `memory` with the references of others. Pure."""
    found = (_reference(other, memory.id) for other in referring if other.id != memory.id)
    return DeletedMemory(memory=memory, references=tuple(one for one in found if one.relations or one.superseded))


def _reference(other: Memory, target: str) -> Reference:
    return Reference(
        id=other.id,
        relations=tuple(relation for relation in other.relations if relation.target == target),
        superseded=other.superseded_by == target,
        superseded_at=other.superseded_at,
    )


def referring_again(memory: Memory, restored: Iterable[DeletedMemory]) -> Memory:
    """Return `memory` with its former references to restored memories, unless another one superseded it since. Pure."""
    for one in restored:
        for reference in one.references:
            if reference.id != memory.id:
                continue
            new = tuple(relation for relation in reference.relations if relation not in memory.relations)
            update: dict[str, object] = {"relations": (*memory.relations, *new)}
            if reference.superseded and memory.superseded_by is None:
                update |= {"superseded_by": one.memory.id, "superseded_at": reference.superseded_at}
            memory = memory.model_copy(update=update)
    return memory
