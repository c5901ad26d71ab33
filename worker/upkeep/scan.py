"""Collect what upkeep needs to know of each memory of a tenant, in about 2 KB each."""

import hashlib
from collections.abc import Iterable
from datetime import datetime

import numpy as np
import numpy.typing as npt

from worker.domain.memory import Memory, Vector, is_superseded
from worker.domain.pages import Listed
from worker.domain.vectors import packed
from worker.text.wording import marks

from .changed_values import wording_of

MOST_HEAD = 600
"""Characters of a text that are kept to compare it with others; the whole texts are read before a merge."""

MOST_VALUES = 3
"""Memories with the same words up to which they give values of one thing; more are a list, such as of measurements."""

PackedRows = npt.NDArray[np.int8]


class Scan:
    """Memories of a tenant that are valid at `now`, in blocks within which two may be duplicates.

    Those of a block have the same owners, channel, type, numbers, negation, day and validity. With `vectors`, their
    dense vectors are kept, too.
    """

    def __init__(self, tenant: str, now: datetime, *, vectors: bool) -> None:
        self.tenant = tenant
        self.ids: list[str] = []
        self.heads: list[str] = []
        self.blocks: dict[bytes, list[int]] = {}
        self.expired: list[str] = []
        self.seen = 0
        self._now = now
        self._vectors = vectors
        self._rows: list[bytes | None] = []
        self._states: list[bytes] = []
        self._same_words: dict[bytes, list[int]] = {}

    def add(self, entries: Iterable[Listed]) -> None:
        """Take memories of the tenant."""
        for entry in entries:
            self.seen += 1
            self._add(entry.memory, entry.dense)

    def _add(self, memory: Memory, dense: Vector | None) -> None:
        if memory.superseded_by is not None or is_superseded(memory, self._now):
            return
        if memory.valid_until is not None and memory.valid_until <= self._now:
            self.expired.append(memory.id)
            return
        place = len(self.ids)
        self.ids.append(memory.id)
        self.heads.append(memory.content[:MOST_HEAD])
        self._rows.append(packed([dense]) if dense is not None and self._vectors else None)
        self._states.append(_state(memory))
        self.blocks.setdefault(_block(memory), []).append(place)
        wording = wording_of(memory)
        if wording is not None:
            self._same_words.setdefault(_digest(_owners(memory), wording), []).append(place)

    @property
    def same_words(self) -> list[list[int]]:
        """Return places of memories that may give different values of one thing."""
        return [group for group in self._same_words.values() if 1 < len(group) <= MOST_VALUES]

    def is_as_read(self, place: int, memory: Memory) -> bool:
        """Return whether the memory of this place still says the same for the same owners, and holds as long."""
        return self._states[place] == _state(memory)

    def rows(self, places: list[int]) -> PackedRows:
        """Return the packed vectors of these memories, zeros where there is none."""
        width = max((len(row) for row in self._rows if row is not None), default=1)
        found = [self._rows[place] for place in places]
        whole = (row if row is not None and len(row) == width else bytes(width) for row in found)
        return np.frombuffer(b"".join(whole), dtype=np.int8).reshape(len(places), width)


def _block(memory: Memory) -> bytes:
    found = marks(memory.content)
    return _digest(_owners(memory), *sorted(found.figures), str(found.negated), _times(memory))


def _state(memory: Memory) -> bytes:
    replaced = f"{memory.superseded_by} {memory.superseded_at}"
    return _digest(_owners(memory), memory.content, _times(memory), replaced)


def _times(memory: Memory) -> str:
    return f"{memory.occurred_at} {memory.valid_until}"


def _owners(memory: Memory) -> str:
    scope = memory.scope
    return repr((scope.user, scope.agent, scope.project, memory.channel, memory.type.value))


def _digest(*parts: str) -> bytes:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=12).digest()
