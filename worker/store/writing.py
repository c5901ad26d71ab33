"""Conditional writes: each change applies to what is stored, so that concurrent writers lose none of theirs.

A write happens only if the memory is still as it was read; otherwise it is read and changed again. That holds across
processes, too.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

import structlog

from worker.domain.cues import Cue, CueOrigin, of_owner
from worker.domain.errors import EmbedderError, StoreError
from worker.domain.memory import Memory, MemoryFilter, Replacement, StoredMemory, StoredState, Vector
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import MemoryStore
from worker.text.names import keyword_text

from .cue_checks import CueChecks
from .originals import Originals, find_originals, texts_to_find
from .superseding import by_target, check_scopes, same_links, superseded, targets_of
from .vectors import assembled, texts_of

ATTEMPTS = 64
"""Attempts to change a memory that others change at the same time."""

PAUSE = 0.002
MOST_PAUSE = 0.1
"""Seconds before a further attempt, at random up to these."""

LISTED = 200
"""Page size when listing memories that refer to others."""

log = structlog.get_logger()

Change = Callable[[Memory | None], Memory]
"""Returns the memory to store instead of the present one, if any. Raises `MemoryRejected` or `NotFound`."""


@dataclass(frozen=True, slots=True)
class StoreReport:
    """Result of a write, as ids; `without_vector` counts memories that could not be embedded.

    `general_cues` were left out, because they fit too many messages.
    """

    created: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    without_vector: int = 0
    general_cues: tuple[str, ...] = ()


@dataclass(slots=True)
class _Outcome:
    """What has been stored so far: memories by id, and what was there before."""

    stored: dict[str, Memory] = field(default_factory=dict)
    before: dict[str, Memory | None] = field(default_factory=dict)

    def report(self, without_vector: int, general_cues: Iterable[str]) -> StoreReport:
        created = tuple(key for key in self.stored if self.before[key] is None)
        updated = tuple(key for key in self.stored if self.before[key] not in (None, self.stored[key]))
        unchanged = tuple(key for key in self.stored if self.before[key] == self.stored[key])
        return StoreReport(created, updated, unchanged, without_vector, tuple(general_cues))


class MemoryWriter:
    """Writes memories of one tenant; `note` is called with the ids after each write, made or failed."""

    def __init__(
        self,
        store: MemoryStore,
        sparse: SparseEncoder,
        embedder: Embedder | None,
        note: Callable[[Sequence[str]], None],
        checks: CueChecks,
    ) -> None:
        self._store = store
        self._sparse = sparse
        self._embedder = embedder
        self._note = note
        self._checks = checks
        self._general: dict[str, None] = {}
        self._vectors: dict[str, Vector | None] = {}
        self._bare: set[str] = set()

    async def save(self, changes: Mapping[str, Change], *, strict: bool = False) -> StoreReport:
        """Change memories by id, and mark those as outdated that they supersede.

        With `strict`, raise `MemoryRejected` if a memory would supersede one that more people see; otherwise it is
        stored, and the other one stays as it is.
        """
        outcome, left = _Outcome(), dict(changes)
        async for _ in _attempts():
            left = {key: left[key] for key in await self._save_once(left, outcome, strict=strict)}
            if not left:
                break
        await self._mark(outcome)
        return outcome.report(len(self._bare), self._general)

    async def originals(self, memories: Sequence[Memory], now: datetime | None) -> Originals:
        """Return the originals of those new `memories` that were shown and are saved again, by the new id."""
        states = await self._store.states([memory.id for memory in memories])
        arriving = [memory for memory in memories if memory.id not in states]
        vectors = await self._embedded(texts_to_find(arriving))
        return await find_originals(self._store, self._sparse, arriving, vectors, now)

    async def amend(self, ids: Iterable[str], change: Callable[[Memory], Memory]) -> None:
        """Change memories that exist, without looking at what they supersede."""
        left = list(ids)
        async for _ in _attempts():
            if not left:
                break
            states = await self._store.states(left)
            present = readable(states)
            left = await self._replace({key: change(memory) for key, memory in present.items()}, states)

    async def _save_once(self, changes: Mapping[str, Change], outcome: _Outcome, *, strict: bool) -> list[str]:
        """Make the changes once; return the ids whose memory was changed by others meanwhile."""
        states = await self._store.states(list(changes))
        present = readable(states)
        wanted = {key: change(present.get(key)) for key, change in changes.items()}
        wanted = {key: await self._specific(memory, present.get(key)) for key, memory in wanted.items()}
        if strict:
            await self._check_scopes(wanted, present)
        marked = await self._marked(wanted, [key for key in wanted if key not in present])
        refused = await self._replace(marked, states)
        for key, memory in wanted.items():
            if key not in refused:
                outcome.stored[key], outcome.before[key] = memory, present.get(key)
        return refused

    async def acceptable(self, present: Memory, cues: Sequence[Cue]) -> tuple[Cue, ...]:
        """Return those of the new `cues` that would be stored, so that no others take room."""
        known = {cue.text for cue in present.cues}
        new = tuple(cue for cue in cues if cue.text not in known)
        both = present.model_copy(update={"cues": (*present.cues, *new)})
        return (await self._specific(both, present)).cues[len(present.cues) :] if new else ()

    async def _specific(self, memory: Memory, present: Memory | None) -> Memory:
        """Return the memory without new cues that fit too many messages, that were learned from messages of others, or
        that were learned and say nothing new."""
        cues = of_owner(memory.cues, memory.scope.user)
        if cues is not memory.cues:
            memory = memory.model_copy(update={"cues": cues})
        known = {cue.text for cue in present.cues} if present else set()
        new = [cue.text for cue in memory.cues if cue.text not in known]
        if not new:
            return memory
        vectors = await self._embedded([memory.content, *new])
        general = await self._checks.ordinary(new, vectors)
        general |= await self._checks.unrelated(
            memory, (text for text in new if text not in general), vectors, self._store
        )
        self._general |= dict.fromkeys(text for text in new if text in general)
        left_out = general | (await self._repeated(memory, new) if present else set())
        kept = tuple(cue for cue in memory.cues if cue.text not in left_out)
        return memory.model_copy(update={"cues": kept}) if left_out else memory

    async def _repeated(self, memory: Memory, new: Sequence[str]) -> set[str]:
        """Return the new learned cues that repeat others; those of an import were compared when they were learned."""
        if not any(cue.origin is CueOrigin.LEARNED and cue.text in new for cue in memory.cues):
            return set()
        vectors = await self._embedded([memory.content, *(cue.text for cue in memory.cues)])
        return self._checks.repeated(memory, new, vectors)

    async def _check_scopes(self, memories: Mapping[str, Memory], present: Mapping[str, Memory]) -> None:
        """Raise `MemoryRejected` if a change makes a memory outdated for people who do not see its successor."""
        for key, memory in memories.items():
            if not same_links(memory, present.get(key)):
                linked = [*targets_of(memory), *([memory.superseded_by] if memory.superseded_by else [])]
                check_scopes(memory, await self._store.get(linked) if linked else ())

    async def _marked(self, memories: Mapping[str, Memory], arriving: Sequence[str]) -> dict[str, Memory]:
        """Mark those of `memories` that others of them supersede, or that a stored one does if they are `arriving`."""
        stored = by_target(await pointing(self._store, arriving))
        among = by_target(memories.values())
        successors = {key: [*stored.get(key, ()), *among.get(key, ())] for key in memories}
        return {key: superseded(memory, successors[key]) for key, memory in memories.items()}

    async def _mark(self, outcome: _Outcome) -> None:
        """Mark what the stored memories supersede, and those new ones whose successor was stored meanwhile."""
        targets = by_target(outcome.stored.values())
        created = [key for key in outcome.stored if outcome.before[key] is None]
        known = by_target(await pointing(self._store, created))
        targets |= {key: [*targets.get(key, ()), *known[key]] for key in created if key in known}
        await self.amend(targets, lambda memory: superseded(memory, targets[memory.id]))

    async def _replace(self, memories: Mapping[str, Memory], states: Mapping[str, StoredState]) -> list[str]:
        """Write those that differ from what is stored; return the ids of those that others have changed."""
        present = readable(states)
        differing = [memory for key, memory in memories.items() if memory != present.get(key)]
        new_texts = (texts_of(one) for one in differing if not _keeps_vectors(one, present.get(one.id)))
        vectors = await self._embedded(chain.from_iterable(new_texts))
        writes = []
        for memory in differing:
            new = memory if _keeps_vectors(memory, present.get(memory.id)) else self._with_vectors(memory, vectors)
            state = states.get(memory.id)
            writes.append(Replacement(new, None if state is None else state.revision))
        try:
            refused = await self._store.replace(writes) if writes else []
        finally:
            self._note([memory.id for memory in differing])
        bare = {one.memory.id for one in writes if isinstance(one.new, StoredMemory) and one.new.dense is None}
        self._bare |= bare - set(refused)
        return refused

    def _with_vectors(self, memory: Memory, vectors: Mapping[str, Vector | None]) -> StoredMemory:
        made = assembled(memory, vectors)
        return StoredMemory(memory, made.own, self._sparse.passage(keyword_text(memory)), made.cues)

    async def _embedded(self, texts: Iterable[str]) -> Mapping[str, Vector | None]:
        """Return the vectors by text; each text is embedded once, however often the write is repeated."""
        missing = list(dict.fromkeys(text for text in texts if text not in self._vectors))
        if missing:
            self._vectors |= zip(missing, await self._vectors_of(missing), strict=True)
        return self._vectors

    async def _vectors_of(self, texts: list[str]) -> Sequence[Vector | None]:
        if self._embedder is None:
            return [None] * len(texts)
        try:
            return await self._embedder.embed_passages(texts)
        except EmbedderError as error:
            log.warning("stored_without_vectors", texts=len(texts), error=str(error))
            return [None] * len(texts)


def readable(states: Mapping[str, StoredState]) -> dict[str, Memory]:
    return {key: state.memory for key, state in states.items() if state.memory is not None}


async def pointing(store: MemoryStore, ids: Sequence[str]) -> list[Memory]:
    """Return every memory that refers to one of `ids`."""
    found: list[Memory] = []
    cursor = None
    where = MemoryFilter(pointing_at=tuple(ids))
    while ids:
        page = await store.scroll(where, limit=LISTED, cursor=cursor)
        found += page.memories
        cursor = page.cursor
        if cursor is None:
            break
    return found


async def _attempts() -> AsyncIterator[None]:
    """Yield before each attempt; raise `StoreError` after too many."""
    for attempt in range(ATTEMPTS):
        if attempt:
            await asyncio.sleep(random.uniform(0, min(MOST_PAUSE, PAUSE * attempt)))
        yield
    raise StoreError("the memory is being changed by others all the time; try again")


def _keeps_vectors(memory: Memory, known: Memory | None) -> bool:
    """Return whether the vectors of a stored memory would stay the same."""
    return known is not None and _read_by_search(memory) == _read_by_search(known)


def _read_by_search(memory: Memory) -> tuple[object, ...]:
    return memory.content, memory.context, memory.entities, [cue.text for cue in memory.cues]
