"""Writing and listing of memories. A write returns only after it has been stored.

Outdated memories are marked (`superseded_by`, `superseded_at`), so that a filter can exclude them from every search. A
successor and the memory it replaces can be stored in any order.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from worker.domain.cues import Cue, CueOrigin, with_more
from worker.domain.deleted import DeletedMemory, deleted_with_references, referring_again
from worker.domain.errors import MemoryRejected, NotFound
from worker.domain.kinds import SortKey
from worker.domain.memory import Memory, MemoryFilter, Relation
from worker.domain.pages import Page
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import MemoryStore, StoreEngine
from worker.receipts.erasing import ReceiptErasing
from worker.text.masking import mask_secrets
from worker.transfer.entries import changed, check_content

from .cue_checks import CueChecks
from .originals import redirected, with_new_relations
from .superseding import in_room, reopened_if_extended, targets_of, without
from .writing import Change, MemoryWriter, StoreReport, pointing

MOST_STEPS = 100
"""Maximum length of a chain of successors."""

Changed = Callable[[str, Sequence[str]], None]


@dataclass(frozen=True, slots=True)
class MemoryWithHistory:
    """A memory with those it replaced, those that replaced it (nearest first), and other related ones."""

    memory: Memory
    earlier: tuple[Memory, ...] = ()
    later: tuple[Memory, ...] = ()
    related: tuple[Memory, ...] = ()


class MemoryService:
    """Writes and lists memories.

    Without `embedder`, memories are stored without dense vectors. `mask` masks secrets in stored memories. `changed` is
    called with tenant and ids after each write or deletion, so that a copy of the store does not miss one. `erasing`
    removes the texts of deleted memories from receipts.
    """

    def __init__(
        self,
        engine: StoreEngine,
        sparse: SparseEncoder,
        embedder: Embedder | None,
        *,
        mask: bool = False,
        changed: Changed | None = None,
        erasing: ReceiptErasing | None = None,
    ) -> None:
        self._engine = engine
        self._sparse = sparse
        self._embedder = embedder
        self._mask = mask
        self._changed = changed
        self._erasing = erasing
        self._checks = CueChecks(embedder)

    async def put(
        self,
        tenant: str,
        memories: Sequence[Memory],
        *,
        now: datetime | None = None,
        mask: bool = False,
        keep_same: bool = False,
    ) -> StoreReport:
        """Store memories; changed content increments the version, and unchanged memories are skipped.

        A missing `created_at` is taken from the stored memory, or set to `now`. With `keep_same`, a stored memory with
        the same content stays as it is. So does one that was shown and is saved again under another id. Raise
        `MemoryRejected` before anything is written, or `StoreError` if the store fails.
        """
        given = [_masked(memory) for memory in memories] if mask or self._mask else memories
        for memory in given:
            check_content(memory)
        writer = self._writer(tenant)
        return await writer.save(await _changes(writer, given, now, keep_same=keep_same))

    async def remember(self, tenant: str, memory: Memory, *, now: datetime | None, keep_same: bool) -> StoreReport:
        """Store one memory like `put`, in the channel of what it replaces.

        Raise `MemoryRejected` if it would supersede one that more people see.
        """
        given = _masked(memory) if self._mask else memory
        check_content(given)
        if replaced := targets_of(given):
            given = in_room(given, await self.get(tenant, replaced))
        writer = self._writer(tenant)
        return await writer.save(await _changes(writer, [given], now, keep_same=keep_same), strict=True)

    async def update(self, tenant: str, memory_id: str, changes: Mapping[str, Any]) -> Memory:
        """Change some fields of a memory; raise `NotFound`, or `MemoryRejected` for an invalid value."""

        def change(present: Memory | None) -> Memory:
            known = _existing(present, memory_id)
            memory = changed(known, changes)
            if memory.id != known.id:
                raise MemoryRejected("id: cannot be changed; store a new memory and delete this one")
            return _versioned(_masked(memory) if self._mask else memory, known)

        await self._writer(tenant).save({memory_id: change}, strict=True)
        return await self._one(tenant, memory_id)

    async def add_cues(self, tenant: str, memory_id: str, cues: Sequence[Cue], *, version: int | None = None) -> bool:
        """Add cues to a memory and return whether it has changed; not if it is unknown or of another version.

        Cues of a model replace earlier ones of a model.
        """
        by_model = any(cue.origin is CueOrigin.MODEL for cue in cues)

        def kept(memory: Memory) -> Memory:
            left = tuple(cue for cue in memory.cues if not (by_model and cue.origin is CueOrigin.MODEL))
            return memory.model_copy(update={"cues": left})

        def change(present: Memory | None) -> Memory:
            known = _existing(present, memory_id)
            if version not in (None, known.version):
                return known
            return known.model_copy(update={"cues": with_more(kept(known).cues, accepted)})

        writer = self._writer(tenant)
        try:
            given = _masked_cues(cues) if self._mask else tuple(cues)
            accepted = await writer.acceptable(kept(await self._one(tenant, memory_id)), given)
            report = await writer.save({memory_id: change}) if accepted else StoreReport()
        except NotFound:
            return False
        return bool(report.updated)

    async def relate(self, tenant: str, source: str, kind: str, target: str) -> Memory:
        """Add a relation from `source` to `target`, which a superseding relation marks as outdated; return the source.

        Raise `NotFound` if either is unknown, or `MemoryRejected` if they are the same.
        """
        if source == target:
            raise MemoryRejected("relations: a memory cannot be related to itself")
        relation = Relation(kind=kind, target=target)

        def change(present: Memory | None) -> Memory:
            known = _existing(present, source)
            if relation in known.relations:
                return known
            return known.model_copy(update={"relations": (*known.relations, relation)})

        await self._one(tenant, target)
        await self._writer(tenant).save({source: change}, strict=True)
        return await self._one(tenant, source)

    async def change(self, tenant: str, changes: Mapping[str, Change]) -> StoreReport:
        """Change memories by id, each as it is stored when it is written.

        What a change raises comes out of here, and nothing is written then.
        """
        return await self._writer(tenant).save(changes)

    async def forget(self, tenant: str, ids: Sequence[str], *, permanent: bool = False) -> int:
        """Delete memories and all references to them; return the number that existed.

        Memories that a deleted memory had replaced stay outdated. A `permanent` deletion will not be undone.
        """
        store, gone = self._engine.tenant(tenant), frozenset(ids)
        try:
            deleted = await store.delete(list(ids))
        finally:
            self._note(tenant, list(gone))
        if self._erasing is not None:
            await self._erasing.deleted(tenant, list(gone), at_once=permanent)
        referring = [memory.id for memory in await pointing(store, list(gone))]
        await self._writer(tenant).amend(referring, lambda memory: without(memory, gone))
        return deleted

    async def deletable(self, tenant: str, ids: Sequence[str]) -> list[DeletedMemory]:
        """Return what would restore these memories after a deletion; unknown ones are left out."""
        store = self._engine.tenant(tenant)
        present = await store.get(list(ids))
        referring = await pointing(store, [memory.id for memory in present])
        return [deleted_with_references(memory, referring) for memory in present]

    async def restore(self, tenant: str, deleted: Sequence[DeletedMemory]) -> list[Memory]:
        """Store deleted memories again, with the references to them; one that was stored meanwhile stays as it is."""
        writer, as_they_were = self._writer(tenant), {one.memory.id: one.memory for one in deleted}
        report = await writer.save({key: partial(_or_present, memory) for key, memory in as_they_were.items()})
        back = [one for one in deleted if one.memory.id in report.created]
        referring = {reference.id for one in back for reference in one.references}
        await writer.amend(referring, lambda memory: referring_again(memory, back))
        if self._erasing is not None:  # of all, as a first attempt that failed here has stored them already
            await self._erasing.restored(tenant, list(as_they_were))
        return await self.get(tenant, list(report.created))

    async def show(self, tenant: str, memory_id: str) -> MemoryWithHistory:
        """Return a memory with its history; raise `NotFound`."""
        store = self._engine.tenant(tenant)
        memory = await self._one(tenant, memory_id)
        earlier = await _earlier(store, memory)
        later = await _later(store, memory)
        history = {shown.id for shown in (memory, *earlier, *later)}
        targets = await store.get([relation.target for relation in memory.relations])
        related = {found.id: found for found in [*targets, *await pointing(store, [memory_id])]}
        return MemoryWithHistory(memory, earlier, later, tuple(related[key] for key in related if key not in history))

    async def get(self, tenant: str, ids: Sequence[str]) -> list[Memory]:
        return await self._engine.tenant(tenant).get(ids)

    async def page(self, tenant: str, *, limit: int, cursor: str | None, where: MemoryFilter | None = None) -> Page:
        """Return a page of the tenant's memories, including outdated ones unless `where` excludes them."""
        return await self._engine.tenant(tenant).scroll(where or MemoryFilter(), limit=limit, cursor=cursor)

    async def newest(self, tenant: str, *, limit: int, where: MemoryFilter) -> tuple[Memory, ...]:
        hits = await self._engine.tenant(tenant).ordered(where, SortKey.RECENT, limit=limit)
        return tuple(hit.memory for hit in hits)

    async def count(self, tenant: str) -> int:
        return await self._engine.tenant(tenant).count()

    async def _one(self, tenant: str, memory_id: str) -> Memory:
        found = await self._engine.tenant(tenant).get([memory_id])
        return _existing(found[0] if found else None, memory_id)

    def _note(self, tenant: str, ids: Sequence[str]) -> None:
        if self._changed is not None:
            self._changed(tenant, ids)

    def _writer(self, tenant: str) -> MemoryWriter:
        note = partial(self._note, tenant)
        return MemoryWriter(self._engine.tenant(tenant), self._sparse, self._embedder, note, self._checks)


async def _changes(
    writer: MemoryWriter, memories: Sequence[Memory], now: datetime | None, *, keep_same: bool
) -> dict[str, Change]:
    """Return the changes that store `memories`, by id; the originals of shown memories are kept."""
    latest = {memory.id: memory for memory in memories}
    originals = await writer.originals(list(latest.values()), now)
    build = partial(_versioned, now=now, keep_same=keep_same)
    linked = {key: redirected(memory, originals) for key, memory in latest.items()}
    changes: dict[str, Change] = {key: partial(build, memory) for key, memory in linked.items() if key not in originals}
    for key, original in originals.items():
        changes[original.id] = _repeating(linked[key], changes.get(original.id, _kept(original, now)))
    return changes


def _existing(memory: Memory | None, memory_id: str) -> Memory:
    if memory is None:
        raise NotFound(f"there is no memory {memory_id!r}")
    return memory


def _or_present(memory: Memory, present: Memory | None) -> Memory:
    return present or memory


def _repeating(again: Memory, change: Change) -> Change:
    """Return a change of an original that keeps it and adds the relations of what repeats it."""
    return lambda present: with_new_relations(change(present), again)


def _kept(original: Memory, now: datetime | None) -> Change:
    """Return the change that keeps an original, and restores it if it was deleted meanwhile."""
    return lambda present: present or _versioned(original, None, now=now)


def _masked(memory: Memory) -> Memory:
    update: dict[str, object] = {
        "content": mask_secrets(memory.content),
        "context": memory.context and mask_secrets(memory.context),
        "source": memory.source and mask_secrets(memory.source),
        "entities": tuple(map(mask_secrets, memory.entities)),
    }
    if memory.cues:
        update["cues"] = _masked_cues(memory.cues)
    if memory.evidence is not None:
        update["evidence"] = memory.evidence.model_copy(update={"text": mask_secrets(memory.evidence.text)})
    masked = memory.model_copy(update=update)
    return memory if masked == memory else masked


def _masked_cues(cues: Sequence[Cue]) -> tuple[Cue, ...]:
    return tuple(cue.model_copy(update={"text": mask_secrets(cue.text)}) for cue in cues)


def _versioned(
    memory: Memory, present: Memory | None, *, now: datetime | None = None, keep_same: bool = False
) -> Memory:
    """Return `memory` as it replaces `present`, or with `keep_same` a `present` memory with the same content.

    Cues belong to a content: they stay if it does and no others are given; with `keep_same`, others are added.
    A pinned memory stays pinned if nothing else is said.
    """
    same = present is not None and present.content == memory.content
    if keep_same and same and present is not None:
        pinned = present.pinned or memory.pinned
        return present.model_copy(update={"cues": with_more(present.cues, memory.cues), "pinned": pinned})
    kept: dict[str, object] = {}
    if now is not None and "created_at" not in memory.model_fields_set:
        kept["created_at"] = now if present is None else present.created_at
    if present is not None:
        kept["version"] = max(memory.version, present.version + (not same))
        if same and "cues" not in memory.model_fields_set:
            kept["cues"] = present.cues
        if "pinned" not in memory.model_fields_set:
            kept["pinned"] = present.pinned
        if memory.superseded_by is None and "superseded_by" not in memory.model_fields_set:
            kept |= {"superseded_by": present.superseded_by, "superseded_at": present.superseded_at}
    final = memory.model_copy(update=kept)
    return final if present is None else reopened_if_extended(final, present)


async def _earlier(store: MemoryStore, memory: Memory) -> tuple[Memory, ...]:
    """Return the chain of memories that `memory` replaced."""
    found: dict[str, Memory] = {}
    newest = [memory]
    while newest and len(found) < MOST_STEPS:
        replaced = {target for later in newest for target in targets_of(later)}
        ids = [later.id for later in newest]
        superseded = {earlier.id for earlier in await pointing(store, ids) if earlier.superseded_by in ids}
        wanted = sorted((replaced | superseded) - set(found) - {memory.id})
        newest = await store.get(wanted)
        found |= {earlier.id: earlier for earlier in newest}
    return tuple(found.values())


async def _later(store: MemoryStore, memory: Memory) -> tuple[Memory, ...]:
    """Return the chain of memories that replaced `memory`."""
    found: dict[str, Memory] = {}
    following = memory.superseded_by
    while following is not None and following not in found and following != memory.id and len(found) < MOST_STEPS:
        successors = await store.get([following])
        found |= {successor.id: successor for successor in successors}
        following = successors[0].superseded_by if successors else None
    return tuple(found.values())
