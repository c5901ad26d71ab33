"""Ask mem0 the same tasks: same embedder, same keyword vectors, no language model, no network.

mem0 is not a requirement. It is imported only if it is installed.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from rich.progress import Progress

from worker.adapters.models.minilm import MiniLmEmbedder
from worker.adapters.qdrant.bm25 import Bm25Encoder
from worker.domain.memory import Memory
from worker.tuning.labelled_worlds import LabelledTask, LabelledWorld

from ..peers.exchange import Sparse
from ..peers.systems import EVERYBODY, opened_mem0
from ..processes import scratch
from ..progress import bar
from .scoring import Ranked

PACKAGE, DISTRIBUTION = "mem0", "mem0ai"
INSTALL = "pip install mem0ai==2.2.1"
MOST = 100
"""Memories asked for when a threshold of our own is applied to them."""


@dataclass(slots=True)
class PeerAnswers:
    """What mem0 finds: with a filter for outdated memories, without it, and with the filter and its own defaults.

    `spent` are milliseconds per search with the filter.
    """

    filtered: list[Ranked] = field(default_factory=list)
    unfiltered: list[Ranked] = field(default_factory=list)
    defaults: list[Ranked] = field(default_factory=list)
    spent: list[float] = field(default_factory=list)

    def ask(self, store: Any, task: LabelledTask) -> None:
        """Search for one task in all three ways."""
        where = _visible(task)
        current = {**where, "current": True}
        start = time.perf_counter()
        self.filtered.append(_found(store, task, current, top_k=MOST, threshold=0.0))
        self.spent.append((time.perf_counter() - start) * 1000)
        self.unfiltered.append(_found(store, task, where, top_k=MOST, threshold=0.0))
        self.defaults.append(_found(store, task, current))


def installed() -> str | None:
    """Return the version of mem0, `None` if it is not installed."""
    try:
        return version(DISTRIBUTION) if find_spec(PACKAGE) else None
    except PackageNotFoundError:
        return None


def ask_peer(worlds: Sequence[LabelledWorld], progress: Progress) -> PeerAnswers:
    """Store each world in a mem0 of its own and search for every task."""
    answers, encoder = PeerAnswers(), Bm25Encoder()
    with scratch() as folder, asyncio.Runner() as runner:
        embedding = _Embedding(MiniLmEmbedder(), runner)
        for world in worlds:
            place = folder / world.name
            place.mkdir()
            with opened_mem0(place, embedding, lambda text: _sparse(encoder, text)) as store:
                _store(store, world, progress)
                with bar(progress, "searching in mem0", len(world.tasks)) as advance:
                    for task in world.tasks:
                        answers.ask(store, task)
                        advance()
        runner.run(embedding.embedder.aclose())
    return answers


@dataclass(frozen=True, slots=True)
class _Embedding:
    """The shipped embedder as an embedder of mem0."""

    embedder: MiniLmEmbedder
    runner: asyncio.Runner

    def embed(self, text: str, memory_action: str | None = None) -> list[float]:
        if memory_action == "search":
            return list(self.runner.run(self.embedder.embed_query(text)))
        return list(self.runner.run(self.embedder.embed_passages([text]))[0])

    def embed_batch(self, texts: Sequence[str], memory_action: str = "add") -> list[list[float]]:
        return [self.embed(text, memory_action) for text in texts]


def _sparse(encoder: Bm25Encoder, text: str) -> Sparse:
    found = encoder.passage(text)
    return found.indices, found.values


def _store(store: Any, world: LabelledWorld, progress: Progress) -> None:
    with bar(progress, "storing in mem0", len(world.memories)) as advance:
        for memory in world.memories:
            about = {"key": memory.id, "agent": memory.scope.agent or EVERYBODY, "current": _is_current(memory)}
            said = [{"role": "user", "content": memory.content}]
            store.add(said, user_id=memory.scope.user or EVERYBODY, metadata=about, infer=False)
            advance()


def _is_current(memory: Memory) -> bool:
    return memory.superseded_by is None and memory.valid_until is None


def _visible(task: LabelledTask) -> dict[str, Any]:
    """Return the filter for the memories of a request's user and agents."""
    scope = task.request.scope
    agents = sorted({task.request.agent_id, scope.agent or EVERYBODY, EVERYBODY})
    return {"user_id": scope.user or EVERYBODY, "agent": {"in": agents}}


def _found(store: Any, task: LabelledTask, where: dict[str, Any], **options: Any) -> Ranked:
    if not task.request.message.strip():
        return Ranked(task, ())  # mem0 refuses an empty query
    results = store.search(task.request.message, filters=where, **options)["results"]
    return Ranked(task, tuple((hit["metadata"]["key"], float(hit["score"])) for hit in results))
