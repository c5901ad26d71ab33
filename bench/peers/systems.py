"""Other memory systems behind one protocol. Each is imported only when it is opened, since none is a requirement."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .exchange import Sparse

EVERYBODY = "everybody"
WIDTH = 384

Hits = list[tuple[str, float]]


class System(Protocol):
    """A memory system that stores texts and finds them again."""

    def add(self, keys: Sequence[str], texts: Sequence[str]) -> None: ...

    def search(self, text: str, most: int) -> Hits: ...


class Known:
    """An embedder with vectors made in advance, so that only the store is measured."""

    def __init__(self, vectors: Mapping[str, npt.NDArray[np.float32]], sparse: Mapping[str, Sparse]) -> None:
        self._vectors = vectors
        self.sparse = sparse

    def one(self, text: str) -> list[float]:
        found: list[float] = self._vectors[text].tolist()
        return found

    def many(self, texts: Sequence[str]) -> list[list[float]]:
        return [self.one(text) for text in texts]


@dataclass(frozen=True, slots=True)
class _Mem0Embedding:
    known: Known

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        return self.known.one(text)

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        return self.known.many(texts)


@dataclass(frozen=True, slots=True)
class _Terms:
    """A sparse vector as fastembed returns it."""

    indices: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Mem0Keywords:
    """BM25 vectors of ours in place of fastembed's, whose files would be downloaded."""

    vector_of: Callable[[str], Sparse]

    def embed(self, texts: Sequence[str]) -> Iterator[_Terms]:
        for text in texts:
            indices, values = self.vector_of(text)
            yield _Terms(np.array(indices, dtype=np.int64), np.array(values))


@dataclass(frozen=True, slots=True)
class _Mem0:
    memory: Any

    def add(self, keys: Sequence[str], texts: Sequence[str]) -> None:
        for key, text in zip(keys, texts, strict=True):
            said = [{"role": "user", "content": text}]
            self.memory.add(said, user_id=EVERYBODY, metadata={"key": key}, infer=False)

    def search(self, text: str, most: int) -> Hits:
        found = self.memory.search(text, filters={"user_id": EVERYBODY}, top_k=most, threshold=0.0)
        return [(hit["metadata"]["key"], float(hit["score"])) for hit in found["results"]]


@contextmanager
def _mem0(folder: Path, known: Known) -> Iterator[System]:
    with opened_mem0(folder, _Mem0Embedding(known), known.sparse.__getitem__) as memory:
        yield _Mem0(memory)


@contextmanager
def opened_mem0(folder: Path, embedding: object, keywords: Callable[[str], Sparse]) -> Iterator[Any]:
    """Open mem0 on Qdrant in files, without telemetry and without a language model that could be asked."""
    os.environ.update(MEM0_TELEMETRY="false", MEM0_DIR=str(folder))  # mem0 reads them when it is imported
    unused = {"provider": "openai", "config": {"api_key": "unused"}}
    place = {
        "path": str(folder / "vectors"),
        "embedding_model_dims": WIDTH,
        "collection_name": "bench",
        "on_disk": True,  # else mem0 deletes what is stored when it opens
    }
    memory = import_module("mem0").Memory.from_config(
        {
            "vector_store": {"provider": "qdrant", "config": place},
            "embedder": unused,
            "llm": unused,
            "history_db_path": str(folder / "history.db"),
        }
    )
    memory.embedding_model = embedding
    memory.vector_store._bm25_encoder = _Mem0Keywords(keywords)
    try:
        yield memory
    finally:
        memory.close()
        memory.vector_store.client.close()


@dataclass(frozen=True, slots=True)
class _LangGraph:
    store: Any
    put: Any

    def add(self, keys: Sequence[str], texts: Sequence[str]) -> None:
        pairs = list(zip(keys, texts, strict=True))
        first = {text: key for key, text in reversed(pairs)}  # its batches fail with the same text twice
        self.store.batch([self.put((EVERYBODY,), key, {"text": text}) for text, key in first.items()])
        for key, text in pairs:
            if first[text] != key:
                self.store.batch([self.put((EVERYBODY,), key, {"text": text})])

    def search(self, text: str, most: int) -> Hits:
        found = self.store.search((EVERYBODY,), query=text, limit=most)
        return [(item.key, float(item.score or 0.0)) for item in found]


@contextmanager
def _langgraph(_: Path, known: Known) -> Iterator[System]:
    """Open the store in memory: the one in SQLite needs a Python that loads extensions, which many do not."""
    store = import_module("langgraph.store.memory").InMemoryStore(
        index={"dims": WIDTH, "embed": known.many, "fields": ["text"]}
    )
    yield _LangGraph(store, import_module("langgraph.store.base").PutOp)


@dataclass(frozen=True, slots=True)
class _Chroma:
    collection: Any
    known: Known

    def add(self, keys: Sequence[str], texts: Sequence[str]) -> None:
        self.collection.add(ids=list(keys), documents=list(texts), embeddings=self.known.many(texts))

    def search(self, text: str, most: int) -> Hits:
        found = self.collection.query(query_embeddings=[self.known.one(text)], n_results=most)
        return [(key, 1.0 - away) for key, away in zip(found["ids"][0], found["distances"][0], strict=True)]


@contextmanager
def _chroma(folder: Path, known: Known) -> Iterator[System]:
    chroma = import_module("chromadb")
    quiet = import_module("chromadb.config").Settings(anonymized_telemetry=False)
    client = chroma.PersistentClient(path=str(folder), settings=quiet)
    yield _Chroma(client.get_or_create_collection("bench", metadata={"hnsw:space": "cosine"}), known)


@dataclass(frozen=True, slots=True)
class Peer:
    """Another system: the name that readers know, its distribution, and how it is opened in a folder.

    One with `keywords` also gets the BM25 vectors of the texts. A `volatile` one keeps nothing when it ends, so a new
    process has to store everything again.
    """

    name: str
    distribution: str
    opened: Any
    keywords: bool = False
    volatile: bool = False

    def open(self, folder: Path, known: Known) -> AbstractContextManager[System]:
        opened: AbstractContextManager[System] = self.opened(folder, known)
        return opened


PEERS = {
    "mem0": Peer("mem0, Qdrant in files", "mem0ai", _mem0, keywords=True),
    "langgraph": Peer("LangGraph, InMemoryStore", "langgraph", _langgraph, volatile=True),
    "chroma": Peer("Chroma, in files", "chromadb", _chroma),
}
