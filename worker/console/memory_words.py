"""Memories as the pages show them. Pure."""

from datetime import UTC, datetime

from pydantic import BaseModel

from worker.domain.kinds import SearchKind
from worker.domain.memory import Memory, is_superseded
from worker.operations.results import FoundMemory, MemoryUsage

from .request_words import LEGS


class MemoryRow(BaseModel):
    """A memory in a list; `score` and `found_by` are those of a search."""

    id: str
    text: str
    type: str = ""
    owner: str = ""
    created_at: datetime | None = None
    occurred_at: datetime | None = None
    valid_until: datetime | None = None
    importance: float | None = None
    version: int | None = None
    outdated: bool = False
    pinned: bool = False
    replaced_by: str | None = None
    score: float | None = None
    found_by: list[str] = []
    injected: int | None = None
    used: int | None = None


def memory_row(memory: Memory) -> MemoryRow:
    return MemoryRow(
        id=memory.id,
        text=memory.content,
        type=memory.type.value,
        owner=owner_of(memory),
        created_at=memory.created_at,
        occurred_at=memory.occurred_at,
        valid_until=memory.valid_until,
        importance=memory.importance,
        version=memory.version,
        outdated=is_superseded(memory, datetime.now(UTC)),
        pinned=memory.pinned,
        replaced_by=memory.superseded_by,
    )


def found_row(found: FoundMemory) -> MemoryRow:
    """Return the row of a memory that a search found; whose it is, its page says."""
    return MemoryRow(
        id=found.id,
        text=found.text,
        type=found.type.value,
        created_at=found.created_at,
        occurred_at=found.occurred_at,
        valid_until=found.valid_until,
        outdated=found.superseded_at is not None,
        pinned=found.pinned,
        replaced_by=found.superseded_by,
        score=found.score,
        found_by=[LEGS[SearchKind(leg)] for leg in found.legs],
    )


def usage_row(usage: MemoryUsage) -> MemoryRow:
    return MemoryRow(id=usage.id, text=usage.text, injected=usage.injected, used=usage.used)


def owner_of(memory: Memory) -> str:
    """Return whose memory it is, `everyone` if nobody's."""
    scope = memory.scope
    named = (scope.user, scope.agent and f"agent {scope.agent}", scope.project and f"project {scope.project}")
    return ", ".join(one for one in named if one) or "everyone"
