"""Which memory outdates which. Pure.

A successor and the memory that it supersedes can be stored in any order. A memory outdates another only if everybody
who sees the other one sees it, too.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from worker.domain.errors import MemoryRejected
from worker.domain.memory import SUPERSEDING, Memory, MemoryScope

EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def targets_of(memory: Memory) -> list[str]:
    """Return ids of the memories that this one supersedes."""
    return [link.target for link in memory.relations if link.kind in SUPERSEDING and link.target != memory.id]


def by_target(successors: Iterable[Memory]) -> dict[str, list[Memory]]:
    """Return the successors by the id of the memory that they supersede."""
    found: dict[str, list[Memory]] = {}
    for successor in successors:
        for target in targets_of(successor):
            found.setdefault(target, []).append(successor)
    return found


def superseded(memory: Memory, successors: Iterable[Memory]) -> Memory:
    """Mark `memory` as superseded by the newest of `successors`, unless its present successor is newer."""
    seen = (one for one in successors if _covers(one, memory))
    newest = max(seen, key=lambda one: (one.created_at or EARLIEST, one.id), default=None)
    since = memory.superseded_at or EARLIEST
    if newest is None or (memory.superseded_by and since >= (newest.created_at or EARLIEST)):
        return memory
    return memory.model_copy(update={"superseded_by": newest.id, "superseded_at": newest.created_at})


def closed_at_its_end(memory: Memory) -> Memory:
    """Return a memory that has expired as closed since then."""
    return memory.model_copy(update={"superseded_at": memory.valid_until})


def is_closed_at_its_end(memory: Memory) -> bool:
    """Return whether a memory was closed since it expired, not since another one replaced it."""
    return memory.superseded_by is None and memory.superseded_at == memory.valid_until is not None


def reopened_if_extended(memory: Memory, present: Memory) -> Memory:
    """Return `memory`, open again if `present` was closed since it expired and now ends at another time."""
    extended = is_closed_at_its_end(present) and memory.valid_until != present.valid_until
    same = (memory.superseded_by, memory.superseded_at) == (None, present.superseded_at)
    return memory.model_copy(update={"superseded_at": None}) if extended and same else memory


def same_links(memory: Memory, present: Memory | None) -> bool:
    """Return whether `memory` outdates the same ones for the same people as `present`."""
    return present is not None and (memory.scope, memory.room, memory.relations, memory.superseded_by) == (
        present.scope,
        present.room,
        present.relations,
        present.superseded_by,
    )


def check_scopes(memory: Memory, linked: Iterable[Memory]) -> None:
    """Raise `MemoryRejected` if `memory` and one of `linked` would break the rule about who sees a successor."""
    targets = targets_of(memory)
    for other in linked:
        if other.id in targets and not _covers(memory, other):
            raise MemoryRejected(_narrower(memory.id, other.id))
        if other.id == memory.superseded_by and not _covers(other, memory):
            raise MemoryRejected(_narrower(other.id, memory.id))


def in_room(memory: Memory, replaced: Iterable[Memory]) -> Memory:
    """Return the memory in the channel of those that it replaces, unless it names one or belongs to a user.

    What was said in a channel is not told elsewhere because somebody writes it anew. Raise `MemoryRejected` if those
    that it replaces are not all of one channel.
    """
    rooms = {one.room for one in replaced}
    if "channel" in memory.model_fields_set or memory.scope.user is not None or rooms <= {None}:
        return memory
    if len(rooms) > 1:
        raise MemoryRejected("channel: it replaces memories of different channels; name the one that it belongs to")
    return memory.model_copy(update={"channel": rooms.pop()})


def _narrower(successor: str, target: str) -> str:
    return (
        f"scope: {target!r} is seen by others who do not see {successor!r}, so {successor!r} cannot supersede it; give"
        " both the same scope, or remove the relation"
    )


def _covers(wider: Memory, narrower: Memory) -> bool:
    """Return whether everybody who sees `narrower` sees `wider`."""
    pairs = ((getattr(wider.scope, key), getattr(narrower.scope, key)) for key in MemoryScope.model_fields)
    return all(owner in (None, other) for owner, other in ((wider.room, narrower.room), *pairs))


def without(memory: Memory, gone: frozenset[str]) -> Memory:
    """Remove all references to deleted memories from `memory`."""
    relations = tuple(relation for relation in memory.relations if relation.target not in gone)
    update: dict[str, object] = {"relations": relations}
    if memory.superseded_by in gone:
        update |= {"superseded_by": None, "superseded_at": memory.superseded_at or memory.created_at or EARLIEST}
    return memory.model_copy(update=update)
