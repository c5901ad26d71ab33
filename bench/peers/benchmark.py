"""Our store and service beside other memory systems: what they find, how fast, and what they need."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from rich.progress import Progress

from hooks import PreExecutionHook
from worker.adapters.models.minilm import PROFILE, MiniLmEmbedder
from worker.adapters.models.relevance_file import read_relevance_model
from worker.domain.errors import MeeseeksError
from worker.tuning.labelled_worlds import LabelledWorld, read_worlds

from ..corpus import TENANT, memories, messages
from ..measure import Result, Series, Table, percentile
from ..options import Options
from ..outside.ours import chosen, injected, orders
from ..outside.scoring import Ranked, score_of
from ..processes import BenchError, running_service, scratch
from ..progress import bar
from ..stores import EMBEDDED, make_store, noisy_vectors, real_vectors
from . import measuring, ours
from .exchange import Texts, resident_mb
from .quality import Quality, of_peer, ranked
from .systems import PEERS

NAME = "peers"
SIZES, MORE_SIZES, QUICK_SIZES = (1_000, 10_000), (100_000,), (200,)
QUERIES, QUICK_QUERIES = 200, 20
FILL_S, FULL_FILL_S = 60.0, 1800.0
"""Seconds after which a system that still stores is stopped, and with all sizes."""

MOST = 10
ALL = 1_000
"""Results asked for where a filter is applied to them afterwards: more than a world has."""

OUR_STORE, OUR_SERVICE = "Meeseeks, store", "Meeseeks, whole service"
HEADS = ("", "memories", "stored a second", "search p50 ms", "p95 ms", "resident MB", "first answer s")
METHOD = (
    "Compare what Meeseeks finds, injects and needs with other memory systems. All get the same texts and vectors of "
    "all-MiniLM-L6-v2 (int8), made in advance, and mem0 the same BM25 vectors; no language model is asked, nothing is "
    "sent anywhere. Each runs in a process of its own: one stores, a new one searches. Times of stores are without the "
    "embedder, which is the same for all. *Store* is the recall of a request: by meaning, by keywords and along links, "
    "and ranking. *Whole service* is the answer that an agent gets, through the hook and the queue, with embedder, "
    "relevance model, ledger and receipt. Peers give the ten best hits."
)
FILTERS = (
    "Peers do not know what is outdated, not yet known, or somebody else's. What a task may not see is taken out of "
    "their results here, as a filter that their user maintains would do it, so that only the search is compared. They "
    "search with the message alone; Meeseeks also reads the turns before it."
)
FITTED = (
    "The threshold of a peer is chosen for the best F1 on a random half of the tasks and scored on the other half, 20 "
    "times, which favours it. Thresholds of Meeseeks are those that ship; neither they nor the relevance model were "
    "fitted to these worlds."
)


def run(options: Options, progress: Progress) -> Result:
    """Compare with the peers that `make peers` has installed; without them, measure ours alone."""
    kinds = (ours.KIND, *measuring.versions())
    quality, about = _quality(options, kinds[1:], progress)
    rows = [row for size in _sizes(options) for row in _speeds(options, kinds, size, progress)]
    speed = Table(title="Time and memory", heads=HEADS, rows=tuple(row.cells for row in rows))
    return Result(
        name=NAME,
        title="Other memory systems",
        method=METHOD,
        checks=(),
        series=tuple(series for row in rows for series in row.series),
        tables=(*quality.tables(about), speed),
        notes=(_versions(), FILTERS, FITTED, *wins([row for row in rows if row.label != OUR_SERVICE])),
    )


def _sizes(options: Options) -> tuple[int, ...]:
    return QUICK_SIZES if options.quick else SIZES + MORE_SIZES if options.full else SIZES


def _versions() -> str:
    installed = measuring.versions()
    named = ", ".join(f"{PEERS[kind].distribution} {version}" for kind, version in installed.items())
    card = read_relevance_model().card
    beside = named or "no peers installed (run `make peers`)"
    return f"Embedder {PROFILE.name}, relevance model {card['version']} (sha256 {card['sha256'][:12]}); {beside}."


def _quality(options: Options, kinds: Sequence[str], progress: Progress) -> tuple[Quality, str]:
    worlds = _worlds(options)
    found = asyncio.run(orders(worlds, progress))
    runs = asyncio.run(injected(worlds, progress))
    order: dict[str, Sequence[Ranked]] = {
        "Meeseeks, order of the search": found.search,
        "Meeseeks, order of the relevance model": found.relevance_model,
    }
    scores = {f"Meeseeks, {name}": score_of(chosen(worlds, one)) for name, one in runs.items()}
    with scratch() as folder:
        for world in worlds:
            asyncio.run(_write_world(folder / world.name, world))
        for kind in kinds:
            name = PEERS[kind].name
            order[name] = [one for world in worlds for one in _ask(kind, folder / world.name, world)]
            scores |= of_peer(name, order[name])
    tasks = [task for world in worlds for task in world.tasks]
    needed = sum(len(task.essential) for task in tasks)
    return Quality(order, scores), f"{len(worlds)} labelled worlds, {len(tasks)} tasks that need {needed} memories"


def _worlds(options: Options) -> tuple[LabelledWorld, ...]:
    try:
        return read_worlds(options.worlds)[: 1 if options.quick else None]
    except MeeseeksError as error:
        raise BenchError(str(error)) from error


async def _write_world(folder: Path, world: LabelledWorld) -> None:
    asked = [task for task in world.tasks if task.request.message.strip()]
    given = await _texts([one.id for one in world.memories], [one.content for one in world.memories])
    wanted = await _texts([task.key for task in asked], [task.request.message for task in asked], query=True)
    measuring.write(folder, given, wanted, keywords=True)


async def _texts(keys: Sequence[str], texts: Sequence[str], *, query: bool = False) -> Texts:
    embedder = MiniLmEmbedder()
    try:
        rows = [await embedder.embed_query(text) for text in texts] if query else await embedder.embed_passages(texts)
    finally:
        await embedder.aclose()
    return Texts(tuple(keys), tuple(texts), np.asarray(rows, dtype=np.float32))


def _ask(kind: str, folder: Path, world: LabelledWorld) -> list[Ranked]:
    measuring.fill(kind, folder, FILL_S)
    found = measuring.search(kind, folder, min(ALL, len(world.memories))).found
    asked = (task.key for task in world.tasks if task.request.message.strip())
    return ranked(world, {key: one.hits for key, one in zip(asked, found, strict=True)})


@dataclass(frozen=True, slots=True)
class Row:
    """Measurements of one system at one size; without `spent`, it was stopped while storing."""

    label: str
    size: int
    rate: float | None
    spent: tuple[float, ...]
    resident: float
    first_s: float | None

    @property
    def cells(self) -> tuple[str, ...]:
        times = [f"{percentile(self.spent, share):.1f}" if self.spent else "stopped" for share in (0.5, 0.95)]
        rate = "–" if self.rate is None else f"{self.rate:,.0f}"
        first = "–" if self.first_s is None else f"{self.first_s:.1f}"
        return (self.label, f"{self.size:,}", rate, *times, f"{self.resident:,.0f}", first)

    @property
    def series(self) -> tuple[Series, ...]:
        return (Series.of(f"{self.label}, {self.size:,}", self.spent),) if self.spent else ()


def _speeds(options: Options, kinds: Sequence[str], size: int, progress: Progress) -> list[Row]:
    number = QUICK_QUERIES if options.quick else QUERIES
    cache = options.out / "cache"
    kept = list(memories(size))
    texts = [memory.content for memory in kept]
    vectors = np.array(list(noisy_vectors(asyncio.run(real_vectors(texts[:EMBEDDED], cache, progress)), size)))
    said = list(islice(messages(), number))
    asked = asyncio.run(_texts([str(place) for place in range(number)], said, query=True))
    given = Texts(tuple(one.id for one in kept), tuple(texts), vectors.astype(np.float32))
    rows = []
    with scratch() as folder, bar(progress, f"{size:,} memories", len(kinds) + 1) as advance:
        measuring.write(folder, given, asked, keywords=True)
        for kind in kinds:
            rows.append(_speed(kind, folder, size, full=options.full))
            advance()
    rows.append(_service(options, size, said, progress))
    return rows


def _speed(kind: str, folder: Path, size: int, *, full: bool) -> Row:
    label = OUR_STORE if kind == ours.KIND else PEERS[kind].name
    filled = measuring.fill(kind, folder, FULL_FILL_S if full else FILL_S)
    if filled.stored < size:
        return Row(
            f"{label}, {filled.stored:,} stored in {filled.seconds:.0f} s",
            size,
            filled.rate,
            (),
            filled.resident_mb,
            None,
        )
    searched = measuring.search(kind, folder, MOST)
    spent = tuple(one.milliseconds for one in searched.found)
    return Row(label, size, filled.rate, spent, searched.resident_mb, searched.first_s)


def _service(options: Options, size: int, said: Sequence[str], progress: Progress) -> Row:
    """Measure answers of the whole service, started anew."""
    with scratch() as data_dir:
        make_store(data_dir, size, options.out / "cache", progress)
        start = time.perf_counter()
        with running_service(data_dir, "--model", "none") as service:
            spent = asyncio.run(_answers(service.url, said))
            first_s, resident = spent[0] / 1000 + spent[1] - start, resident_mb(service.pid)
    return Row(OUR_SERVICE, size, None, tuple(spent[2:]), resident, first_s)


async def _answers(url: str, said: Sequence[str]) -> list[float]:
    """Return the milliseconds of the first answer, when it was asked for, and the milliseconds of the others."""
    spent = []
    async with PreExecutionHook(url) as hook:
        for number, text in enumerate(said):
            start = time.perf_counter()
            await hook({"session_id": f"peers {number}", "message": text, "scope": {"tenant": TENANT}})
            spent += [(time.perf_counter() - start) * 1000] if number else [(time.perf_counter() - start) * 1000, start]
    return spent


MEASURES: Mapping[str, tuple[int, bool]] = {
    "stored a second": (2, True),
    "search p50": (3, False),
    "search p95": (4, False),
    "resident memory": (5, False),
    "first answer": (6, False),
}
"""Columns of the table of times, and whether more is better."""


def wins(rows: Sequence[Row]) -> tuple[str, ...]:
    """Say for each size which store is the best at what; those that were stopped do not count."""
    notes = []
    for size in dict.fromkeys(row.size for row in rows):
        whole = [row for row in rows if row.size == size and row.spent]
        if len(whole) > 1:
            best = (f"{name}: {_best(whole, *how)}" for name, how in MEASURES.items())
            notes.append(f"Best store with {size:,} memories: {'; '.join(best)}.")
    return tuple(notes)


def _best(rows: Sequence[Row], column: int, more: bool) -> str:
    numbers = {row.label: float(row.cells[column].replace(",", "")) for row in rows}
    return (max if more else min)(numbers, key=lambda label: numbers[label])
