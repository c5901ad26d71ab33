"""Create stores of generated memories."""

import asyncio
import inspect
import shutil
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.progress import Progress

from worker.adapters.models.minilm import PROFILE, MiniLmEmbedder
from worker.adapters.qdrant import payload
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge import shard as edge_shard
from worker.adapters.qdrant.edge import wire as edge_wire
from worker.bootstrap.opening import make_generations
from worker.domain.memory import StoredMemory, Vector
from worker.ports.store import Recipe
from worker.settings.service import ServiceSettings
from worker.text import names as naming
from worker.text.names import keyword_text

from .corpus import RECIPE, digest, memories, tenants
from .progress import bar

EMBEDDED = 10_000
"""Number of memories with real vectors. Others get copies with noise, which have a similar distribution."""

NOISE = 0.6
BATCH = 64

Matrix = npt.NDArray[np.float32]

LAYOUT = (payload, naming, edge_shard, edge_wire)
"""Modules that define the format of a store on disk."""


def make_store(data_dir: Path, number: int, cache: Path, progress: Progress) -> None:
    """Fill a data folder with a store of the first `number` memories, copied from `cache` if possible."""
    kept = cache / f"store-{number}-{_key()}"
    if not kept.is_dir():
        draft = kept.with_suffix(".new")
        shutil.rmtree(draft, ignore_errors=True)
        asyncio.run(fill(ServiceSettings(data_dir=draft), number, cache, progress))
        draft.replace(kept)
    shutil.copytree(kept, data_dir, dirs_exist_ok=True)


def _key() -> str:
    """Return a hash of everything that affects the files of a store."""
    sources = [inspect.getsource(module) for module in LAYOUT]
    recipes = [PROFILE.fingerprint, Bm25Encoder("english").config_hash, str(RECIPE), version("qdrant-edge-py")]
    return digest([*sources, *recipes])


async def fill(service: ServiceSettings, number: int, cache: Path, progress: Progress, owners: int = 1) -> float:
    """Store the first `number` memories, divided among so many tenants; return the seconds of encoding and writing.

    Neither making the memories nor their dense vectors counts.
    """
    each = number // owners
    texts = [memory.content for memory in memories(min(number, EMBEDDED))]
    vectors = noisy_vectors(await real_vectors(texts, cache, progress), number)
    sparse, seconds = Bm25Encoder("english"), 0.0
    store = await make_generations(service).open_live(Recipe(PROFILE, sparse.config_hash))
    try:
        with bar(progress, f"storing {number:,} memories", owners * -(-each // BATCH)) as advance:
            for place, tenant in enumerate(tenants(owners)):
                for batch in payload.batched(memories(each, place * each), BATCH):
                    dense = list(islice(vectors, len(batch)))
                    start = time.perf_counter()
                    words = [sparse.passage(keyword_text(memory)) for memory in batch]
                    await store.tenant(tenant).put(list(map(StoredMemory, batch, dense, words)))
                    seconds += time.perf_counter() - start
                    advance()
    finally:
        start = time.perf_counter()
        await store.aclose()
    return seconds + time.perf_counter() - start


async def real_vectors(texts: list[str], cache: Path, progress: Progress) -> Matrix:
    """Return the unit vectors of the texts, one per row."""
    file = cache / f"vectors-{PROFILE.fingerprint}-{digest(texts)}.npy"
    if file.is_file():
        found: Matrix = np.load(file)
        return found
    embedder = MiniLmEmbedder()
    rows: list[Vector] = []
    try:
        with bar(progress, f"embedding {len(texts):,} memories", -(-len(texts) // BATCH)) as advance:
            for start in range(0, len(texts), BATCH):
                rows += await embedder.embed_passages(texts[start : start + BATCH])
                advance()
    finally:
        await embedder.aclose()
    matrix = np.asarray(rows, dtype=np.float32)
    cache.mkdir(parents=True, exist_ok=True)
    np.save(file, matrix)
    return matrix


def noisy_vectors(real: Matrix, number: int) -> Iterator[Vector]:
    """Yield the real vectors, then copies with noise."""
    yield from (tuple(row) for row in real.tolist())
    chance = np.random.default_rng(11)
    width = real.shape[1]
    for index in range(len(real), number):
        noisy = real[index % len(real)] + NOISE * chance.standard_normal(width) / np.sqrt(width)
        yield tuple((noisy / np.linalg.norm(noisy)).tolist())
