"""Find cues that would bring a memory into requests that have nothing to do with it."""

from collections.abc import Iterable, Mapping

import numpy as np
import structlog

from worker.domain.cues import Cue, CueOrigin, cue_key
from worker.domain.errors import EmbedderError
from worker.domain.memory import HybridQuery, Memory, MemoryFilter, Vector
from worker.domain.vectors import Rows, cosine_similarity, direction
from worker.ports.models import Embedder
from worker.ports.store import MemoryStore
from worker.text.ordinary_prompts import ORDINARY_PROMPTS

CROWD = 50
"""Other memories to which a cue may be nearer than to its own, if it has nothing to do with that one's text."""

_KEYS = frozenset(map(cue_key, ORDINARY_PROMPTS))

log = structlog.get_logger()


class CueChecks:
    """Checks of new cues, with the vectors of ordinary prompts, which are made once.

    Of the 40,461 distinct cues of the labelled memories, the vectors exclude seven and the words none.
    """

    def __init__(self, embedder: Embedder | None) -> None:
        self._embedder = embedder
        self._ordinary: Rows | None = None

    async def ordinary(self, texts: Iterable[str], vectors: Mapping[str, Vector | None]) -> set[str]:
        """Return the cues that say the same as an ordinary prompt."""
        cues = list(texts)
        found = {text for text in cues if cue_key(text) in _KEYS}
        known = await self._rows() if cues else None
        if known is None:
            return found
        for text in cues:
            vector = vectors.get(text)
            if vector is not None and float((known @ np.asarray(vector, dtype=np.float32)).max()) >= self._same:
                found.add(text)
        return found

    def repeated(self, memory: Memory, new: Iterable[str], vectors: Mapping[str, Vector | None]) -> set[str]:
        """Return the new learned cues that say the same as the memory's text or as a cue before them."""
        arriving, said, found = set(new), [memory.content], set[str]()
        for cue in sorted(memory.cues, key=lambda cue: cue.text in arriving):
            learned = cue.text in arriving and cue.origin is CueOrigin.LEARNED
            if learned and any(self._says_the_same(cue, text, vectors) for text in said):
                found.add(cue.text)
            else:
                said.append(cue.text)
        return found

    @property
    def _same(self) -> float:
        """Return the cosine from which two short messages say the same."""
        return 2.0 * self._embedder.profile.duplicate - 1.0 if self._embedder else 1.0

    def _says_the_same(self, cue: Cue, text: str, vectors: Mapping[str, Vector | None]) -> bool:
        cosine = _cosine(vectors.get(cue.text), vectors.get(text))
        return cue_key(cue.text) == cue_key(text) or (cosine is not None and cosine >= self._same)

    async def unrelated(
        self, memory: Memory, texts: Iterable[str], vectors: Mapping[str, Vector | None], store: MemoryStore
    ) -> set[str]:
        """Return the cues that are not near the memory's own text, but nearer to a crowd of others."""
        own = vectors.get(memory.content)
        if self._embedder is None or own is None:
            return set()
        cosines = {text: _cosine(vectors.get(text), own) for text in texts}
        least = self._embedder.profile.candidate_threshold
        far = {text: cosine for text, cosine in cosines.items() if cosine is not None and cosine < least}
        if not far:
            return set()
        queries = [HybridQuery(vectors[text], None, MemoryFilter(other_than=(memory.id,)), CROWD) for text in far]
        found = await store.search_many(queries)
        return {
            text
            for text, hits in zip(far, found, strict=True)
            if sum(hit.cosine is not None and hit.cosine > far[text] for hit in hits) >= CROWD
        }

    async def _rows(self) -> Rows | None:
        """Return the vectors of the ordinary prompts, `None` if they cannot be embedded now."""
        if self._ordinary is None and self._embedder is not None:
            try:
                vectors = await self._embedder.embed_passages(ORDINARY_PROMPTS)
            except EmbedderError as error:
                log.warning("cues_checked_by_words_only", error=str(error))
                return None
            self._ordinary = np.asarray(vectors, dtype=np.float32)
        return self._ordinary


def _cosine(one: Vector | None, other: Vector | None) -> float | None:
    return None if one is None else cosine_similarity(direction(one), other)
