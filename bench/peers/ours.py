"""Our store in a process of its own, given the same as the others.

Run it as `python -m bench.peers.ours fill|search FOLDER MOST SECONDS`.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from worker.adapters.models.minilm import PROFILE
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.adapters.qdrant.edge.store import EdgeStore
from worker.domain.deadline import Deadline
from worker.domain.memory import EmbedderProfile, Memory, RecallQuery, Vector, Visibility
from worker.domain.timings import Stages
from worker.recall.recall import Recall, RecallScope
from worker.recall.thresholds import without_thresholds
from worker.settings.injection import InjectionConfig
from worker.store.memories import MemoryService

from .exchange import BATCH, QUERIES, READY, TEXTS, Texts, load, resident_mb

KIND = "meeseeks"
TENANT = "bench"
DEADLINE_S = 30.0


@dataclass(frozen=True, slots=True)
class KnownEmbedder:
    """An embedder with vectors made in advance."""

    vectors: dict[str, Vector]
    profile: EmbedderProfile = PROFILE

    async def embed_query(self, text: str) -> Vector:
        return self.vectors[text]

    async def embed_passages(self, texts: Sequence[str]) -> list[Vector]:
        return [self.vectors[text] for text in texts]

    async def warm(self) -> None:
        """Do nothing: there is no model."""

    async def aclose(self) -> None:
        """Do nothing: there is no model."""


@dataclass(frozen=True, slots=True)
class Ours:
    """An open store with its writer and its recall."""

    memory_service: MemoryService
    recall: Recall

    async def fill(self, given: Texts, seconds: float) -> dict[str, Any]:
        """Store the texts as an import does; stop after `seconds`."""
        start, stored = time.perf_counter(), 0
        while stored < len(given.keys) and time.perf_counter() - start < seconds:
            part = slice(stored, stored + BATCH)
            pairs = zip(given.keys[part], given.texts[part], strict=True)
            memories = [Memory(id=key, content=text) for key, text in pairs]
            await self.memory_service.put(TENANT, memories, now=datetime.now(UTC))
            stored += len(memories)
        return {"seconds": time.perf_counter() - start, "stored": stored, "resident_mb": resident_mb()}

    async def search(self, asked: Texts, most: int) -> dict[str, Any]:
        """Recall for every text, after one recall that is not measured."""
        await self._recalled(asked.texts[0], most)
        print(READY, flush=True)
        found, spent = [], []
        for text in asked.texts:
            start = time.perf_counter()
            found.append(await self._recalled(text, most))
            spent.append((time.perf_counter() - start) * 1000)
        return {"found": found, "spent": spent, "resident_mb": resident_mb()}

    async def _recalled(self, text: str, most: int) -> list[tuple[str, float]]:
        now = datetime.now(UTC)
        scope = RecallScope(TENANT, Visibility(valid_at=now), now)
        deadline = Deadline.after(DEADLINE_S)
        recalled = await self.recall(RecallQuery(text), scope, InjectionConfig(), deadline, Stages())
        return [(one.memory.id, one.score) for one in recalled.candidates[:most]]


@asynccontextmanager
async def opened(folder: Path, given: Texts) -> AsyncIterator[Ours]:
    """Open the embedded store in `folder`; all candidates pass, as thresholds are not compared."""
    rows = (tuple(row) for row in given.vectors.tolist())
    embedder, sparse = KnownEmbedder(dict(zip(given.texts, rows, strict=True))), Bm25Encoder()
    engine = await EdgeStore.open(folder, profile=PROFILE, bm25_hash=sparse.config_hash)
    try:
        recall = Recall(engine, sparse, embedder, None, without_thresholds(PROFILE))
        yield Ours(MemoryService(engine, sparse, embedder), recall)
    finally:
        await engine.aclose()


async def _run(phase: str, folder: Path, most: int, seconds: float) -> dict[str, Any]:
    given = load(folder, TEXTS if phase == "fill" else QUERIES)
    async with opened(folder / KIND, given) as ours:
        return await (ours.fill(given, seconds) if phase == "fill" else ours.search(given, most))


def main() -> None:
    phase, place, most, seconds = sys.argv[1:]
    print(json.dumps(asyncio.run(_run(phase, Path(place), int(most), float(seconds)))), flush=True)


if __name__ == "__main__":
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    main()
