"""Pages of memories, of a tenant and of a whole store."""

from dataclasses import dataclass

from .cues import CueVectors
from .memory import Memory, Vector


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a tenant's memories; `cursor` is `None` on the last page."""

    memories: tuple[Memory, ...]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Listed:
    """A memory with its tenant and, if requested and stored, its dense vectors."""

    tenant: str
    memory: Memory
    dense: Vector | None = None
    cues: CueVectors | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of a whole store; `cursor` is `None` on the last page.

    `unreadable` counts the memories left out, `damaged` those with a field that could not be read.
    """

    entries: tuple[Listed, ...]
    cursor: str | None
    unreadable: int = 0
    damaged: int = 0
