"""A cache of query vectors around an embedder."""

from array import array
from collections import OrderedDict
from collections.abc import Sequence

from worker.domain.memory import EmbedderProfile, Vector
from worker.ports.models import Embedder

QUERIES_KEPT = 1024


class CachingEmbedder:
    """Wrap an embedder and cache the most recently used queries, but no passages or failures."""

    def __init__(self, inner: Embedder, *, capacity: int = QUERIES_KEPT) -> None:
        self._inner = inner
        self._capacity = capacity
        self._vectors: OrderedDict[str, array[float]] = OrderedDict()  # a fifth of the size of tuples

    @property
    def profile(self) -> EmbedderProfile:
        return self._inner.profile

    async def embed_query(self, text: str) -> Vector:
        known = self._vectors.get(text)
        if known is not None:
            self._vectors.move_to_end(text)
            return tuple(known)
        vector = await self._inner.embed_query(text)
        self._vectors[text] = array("d", vector)
        if len(self._vectors) > self._capacity:
            self._vectors.popitem(last=False)
        return vector

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        return await self._inner.embed_passages(texts)

    async def warm(self) -> None:
        await self._inner.warm()

    async def aclose(self) -> None:
        self._vectors.clear()
        await self._inner.aclose()
