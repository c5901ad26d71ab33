"""Find stored memories that are near what was said, and tell what is known already from what contradicts it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from worker.domain.capture import CaptureSource
from worker.domain.errors import EmbedderError, StoreError
from worker.domain.memory import HybridQuery, Memory, MemoryFilter, Vector, Visibility
from worker.domain.vectors import cosine_similarity, direction
from worker.ports.models import Embedder, SparseEncoder
from worker.ports.store import StoreEngine
from worker.text.word_lists import FUNCTION_WORDS
from worker.text.wording import differ, marks

from .fingerprints import are_alike, plain, stems

SEARCHED = 10
"""Memories that are found for each text."""

SAME = 0.80
"""Cosine from which two texts with the same numbers, names and negation say the same."""

RELATED = 0.70
"""Cosine from which two texts that differ in them may contradict each other."""


@dataclass(frozen=True, slots=True)
class Near:
    """A memory near a text; `cosine` is `None` without vectors."""

    memory: Memory
    cosine: float | None


class NearbyMemories:
    """Searches the store with what the owner of a conversation may see."""

    def __init__(self, engine: StoreEngine, sparse: SparseEncoder, embedder: Embedder | None) -> None:
        self._engine = engine
        self._sparse = sparse
        self._embedder = embedder

    async def near(self, source: CaptureSource, texts: Sequence[str], now: datetime) -> list[list[Near]]:
        """Return the valid memories near each text, nearest first. Raise `StoreError`."""
        where = MemoryFilter(visibility=_visible(source, now))
        vectors = await self._vectors(texts)
        words = [self._sparse.query(text) for text in texts]
        usable = [place for place, vector in enumerate(vectors) if vector is not None or words[place].indices]
        queries = [HybridQuery(vectors[place], words[place], where, SEARCHED) for place in usable]
        found = await self._engine.tenant(source.tenant).search_many(queries) if queries else []
        by_place = dict(zip(usable, found, strict=True))
        directions = [None if vector is None else direction(vector) for vector in vectors]
        hits = [by_place.get(place, []) for place in range(len(texts))]
        return [
            [Near(hit.memory, cosine_similarity(asked, hit.vector)) for hit in some]
            for some, asked in zip(hits, directions, strict=True)
        ]

    async def _vectors(self, texts: Sequence[str]) -> list[Vector | None]:
        if self._embedder is None or not texts:
            return [None] * len(texts)
        try:
            return list(await self._embedder.embed_passages(texts))
        except EmbedderError as error:
            raise StoreError(f"nothing can be captured without the embedder: {error}") from error


def known_as(memory: Memory, others: Iterable[Near]) -> str | None:
    """Return the id of the memory that says the same already."""
    return next(
        (near.memory.id for near in others if says_same(memory.content, near.memory.content, near.cosine)), None
    )


def conflicts_of(memory: Memory, others: Iterable[Near]) -> tuple[str, ...]:
    """Return the ids of memories that are about the same, but say something else."""
    found = (near.memory.id for near in others if near.cosine is not None and near.cosine >= RELATED)
    return tuple(found)[:3]


def says_same(new: str, known: str, cosine: float | None) -> bool:
    """Return whether a text says nothing that the known one does not."""
    if plain(new) == plain(known):
        return True
    first, second = marks(new), marks(known)
    if first.negated != second.negated or not first.figures <= second.figures:
        return False
    words, others = first.words - FUNCTION_WORDS, second.words
    if len(words) > 1 and words <= others and first.names <= second.words:
        return True
    if differ(new, known):
        return False
    if cosine is not None:
        return cosine >= SAME
    mine = stems(first)
    return bool(mine) and are_alike(mine, stems(second))


def _visible(source: CaptureSource, now: datetime) -> Visibility:
    return Visibility(
        users=(source.user,) if source.user else (),
        agents=(source.agent_id,),
        projects=(source.project,) if source.project else (),
        channels=(source.channel,) if source.channel else (),
        valid_at=now,
    )
