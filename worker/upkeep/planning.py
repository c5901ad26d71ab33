"""Read the memories of a tenant, and plan the steps of a run. Nothing is written."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from time import monotonic
from typing import TypeVar

from worker.capture.replacing import pair_refusal
from worker.domain.capture import MOST_PROPOSALS
from worker.domain.memory import Memory
from worker.domain.pages import Listed
from worker.domain.upkeep import LEAST_INJECTED, MOST_STEPS, StepKind, UnusedMemory, UpkeepRun, UpkeepStep
from worker.ports.capture import CaptureStore
from worker.ports.state import UsageStore
from worker.ports.store import WholeStore
from worker.store.copying import by_tenant
from worker.text.wording import differ

from .changed_values import is_changed_value
from .merging import before_of, digest_of, merges_of
from .near_pairs import Pair, groups_of, near_pairs
from .scan import Scan

PAGE = 32
"""Memories read at a time; a search of the embedded store waits for at most one page."""

BATCH = 512
"""Memories of small blocks that are compared at a time."""

LEAST_REST_S = 0.002
BUSY_REST = 3.0
"""How many times as long as its work a run rests while requests are answered."""

MOST_GROUP = 200
"""Memories of a group that are compared at a time."""

MOST_COMPARED = 1_000_000
"""Pairs of near texts that a run compares."""

MOST_READ = 500
"""Groups of memories with the same words that a run reads."""

MOST_UNUSED = 20
MOST_PROPOSED = MOST_PROPOSALS // 2
"""Proposals of upkeep that wait at most, so that conversations have room."""

T = TypeVar("T")
Note = Callable[[UpkeepRun], None]
"""Takes the progress of a run."""


@dataclass(frozen=True, slots=True)
class PlanParts:
    """`threshold` returns the least cosine of duplicates, `None` if vectors are not used; `busy` whether requests are
    being answered."""

    store: Callable[[], WholeStore]
    captures: CaptureStore
    usage: UsageStore
    threshold: Callable[[], float | None]
    busy: Callable[[], bool]
    clock: Callable[[], datetime]


class UpkeepPlanner:
    """Plans runs, using half of one core, or a quarter while requests are answered.

    Methods raise `StoreError` or `QueueError`.
    """

    def __init__(self, parts: PlanParts, note: Note) -> None:
        self._parts = parts
        self._note = note
        self._refused: frozenset[str] = frozenset()
        self._salt = ""

    async def scans(self, now: datetime) -> dict[str, Scan]:
        """Read the memories of all tenants."""
        found: dict[str, Scan] = {}
        vectors = self._parts.threshold() is not None

        def take(entries: Sequence[Listed]) -> None:
            for tenant, some in by_tenant(entries).items():
                found.setdefault(tenant, Scan(tenant, now, vectors=vectors)).add(some)

        await self._pages(take, lambda read, total: None, vectors=vectors)
        return found

    async def plan(self, run: UpkeepRun, scan: Scan | None = None) -> UpkeepRun:
        """Return the run with its steps and its report; `scan` has its memories if they were read before."""
        threshold, captures = self._parts.threshold(), self._parts.captures
        self._refused = frozenset(one.exact for one in await captures.refusals(run.tenant))
        self._salt = await captures.salt()
        scan = scan or await self._scan(run, vectors=threshold is not None)
        merges = await self._merges(run, scan, threshold)
        closings = await self._closings(run, scan)
        proposals = await self._proposals(run, scan)
        steps = [*closings, *merges]
        return run.model_copy(
            update={
                "planned": True,
                "memories": scan.seen,
                "steps": (*steps[:MOST_STEPS], *proposals),
                "left": max(0, len(steps) - MOST_STEPS),
                "unused": await self._unused(run.tenant),
            }
        )

    async def _scan(self, run: UpkeepRun, *, vectors: bool) -> Scan:
        scan = Scan(run.tenant, run.at, vectors=vectors)

        def take(entries: Sequence[Listed]) -> None:
            scan.add(entry for entry in entries if entry.tenant == run.tenant)

        await self._pages(take, partial(self._progress, run, "reading"), vectors=vectors)
        return scan

    async def _pages(
        self, take: Callable[[Sequence[Listed]], None], note: Callable[[int, int], None], *, vectors: bool
    ) -> None:
        """Read the whole store page by page."""
        cursor, read, total = None, 0, (await self._parts.store().health()).points
        while True:
            began = monotonic()
            page = await self._parts.store().listing(limit=PAGE, cursor=cursor, vectors=vectors)
            await asyncio.to_thread(take, page.entries)
            read += len(page.entries)
            note(read, total)
            cursor = page.cursor
            if cursor is None:
                return
            await self._rest(began)

    async def _merges(self, run: UpkeepRun, scan: Scan, threshold: float | None) -> list[UpkeepStep]:
        steps: list[UpkeepStep] = []
        blocks = [places for places in scan.blocks.values() if len(places) > 1]
        done, total = 0, sum(map(len, blocks))
        for batch in _batches(blocks, BATCH):
            for groups in _batches(await self._groups(scan, batch, threshold), MOST_GROUP):
                steps += await self._merges_in(run, scan, groups, threshold)
            done += sum(map(len, batch))
            self._progress(run, "comparing", done, total)
            if len(steps) > 2 * MOST_STEPS:
                break
        return steps

    async def _groups(self, scan: Scan, batch: list[list[int]], threshold: float | None) -> list[list[int]]:
        """Return groups of memories of these blocks that are duplicates, as far as their beginnings tell."""
        steps, found, compared = _compared(scan, batch, threshold), list[Pair](), 0
        while (some := await self._in_thread(partial(next, steps, None))) is not None and compared < MOST_COMPARED:
            found += some.pairs
            compared += some.compared
        return groups_of(found)

    async def _merges_in(
        self, run: UpkeepRun, scan: Scan, groups: Sequence[list[int]], threshold: float | None
    ) -> list[UpkeepStep]:
        """Read the memories of these groups at once, and return what to merge in each."""
        places = [place for group in groups for place in group]
        present: dict[int, Memory] = {}
        for start in range(0, len(places), MOST_GROUP):
            present |= await self._present(run, scan, places[start : start + MOST_GROUP])
        found = await self._in_thread(partial(_merged, scan, groups, present, threshold))
        return [step for kept, others in found for step in self._merge(kept, others)]

    def _merge(self, kept: Memory, others: Sequence[Memory]) -> Iterator[UpkeepStep]:
        wanted = [other for other in others if not self._is_refused(kept.id, other.id)]
        if wanted:
            yield UpkeepStep(
                kind=StepKind.MERGE,
                memory=kept.id,
                others=tuple(other.id for other in wanted),
                digests={one.id: digest_of(one) for one in (kept, *wanted)},
                before=before_of(kept, wanted),
            )

    async def _closings(self, run: UpkeepRun, scan: Scan) -> list[UpkeepStep]:
        steps = []
        for start in range(0, min(len(scan.expired), 2 * MOST_STEPS), MOST_GROUP):
            for one in await self._read(run, scan.expired[start : start + MOST_GROUP]):
                expired = one.valid_until is not None and one.valid_until <= run.at and one.superseded_at is None
                if expired and not self._is_refused(one.id, str(one.valid_until)):
                    step = UpkeepStep(kind=StepKind.CLOSE, memory=one.id, until=one.valid_until)
                    steps.append(step.model_copy(update={"digests": {one.id: digest_of(one)}}))
        return steps

    async def _proposals(self, run: UpkeepRun, scan: Scan) -> list[UpkeepStep]:
        waiting = await self._parts.captures.proposals(run.tenant, self._parts.clock())
        known = {(one.change.memory.id, one.change.target) for one in waiting if one.change.known}
        room = min(MOST_PROPOSED - len(known), MOST_PROPOSALS - len(waiting))
        steps: list[UpkeepStep] = []
        for places in scan.same_words[:MOST_READ]:
            if len(steps) >= room:
                break
            present = await self._present(run, scan, places)
            for newer, older in _changed_values(list(present.values())):
                if (newer.id, older.id) not in known and not self._is_refused(newer.id, older.id):
                    digests = {one.id: digest_of(one) for one in (newer, older)}
                    step = UpkeepStep(kind=StepKind.PROPOSE, memory=newer.id, others=(older.id,), digests=digests)
                    steps.append(step)
        return steps[: max(0, room)]

    async def _unused(self, tenant: str) -> tuple[UnusedMemory, ...]:
        """Return the memories that were injected most often without any use, and that are still stored."""
        counts = await self._parts.usage.read_all(tenant)
        never = [(key, one.injected) for key, one in counts.items() if not one.used and one.injected >= LEAST_INJECTED]
        first = sorted(never, key=lambda pair: (-pair[1], pair[0]))[: 2 * MOST_GROUP]
        stored = {one.id for one in await self._parts.store().tenant(tenant).get([key for key, _ in first])}
        found = (UnusedMemory(id=key, injected=injected) for key, injected in first if key in stored)
        return tuple(islice(found, MOST_UNUSED))

    async def _present(self, run: UpkeepRun, scan: Scan, places: Sequence[int]) -> dict[int, Memory]:
        """Return the memories of these places, without those that got another text or owner since the scan."""
        by_id = {scan.ids[place]: place for place in places}
        found = {by_id[one.id]: one for one in await self._read(run, list(by_id))}
        return {place: one for place, one in found.items() if scan.is_as_read(place, one)}

    async def _read(self, run: UpkeepRun, ids: Sequence[str]) -> list[Memory]:
        """Return the memories that are still valid or have only expired."""
        began = monotonic()
        found = await self._parts.store().tenant(run.tenant).get(list(ids))
        await self._rest(began)
        return [one for one in found if one.superseded_by is None]

    async def _in_thread(self, work: Callable[[], T]) -> T:
        began = monotonic()
        done = await asyncio.to_thread(work)
        await self._rest(began)
        return done

    async def _rest(self, began: float) -> None:
        """Leave the machine to answers for as long as the work took since `began`, and longer while there are any."""
        longer = BUSY_REST if self._parts.busy() else 1.0
        await asyncio.sleep(max(LEAST_REST_S, longer * (monotonic() - began)))

    def _is_refused(self, *parts: str) -> bool:
        return bool(self._refused) and pair_refusal(self._salt, *parts).exact in self._refused

    def _progress(self, run: UpkeepRun, phase: str, done: int, total: int) -> None:
        self._note(run.model_copy(update={"phase": phase, "done": done, "total": max(done, total)}))


@dataclass(frozen=True, slots=True)
class _Compared:
    """Pairs of places in the scan, and how many pairs were compared."""

    pairs: list[Pair]
    compared: int = 0


def _merged(
    scan: Scan, groups: Iterable[list[int]], memories: Mapping[int, Memory], threshold: float | None
) -> list[tuple[Memory, list[Memory]]]:
    """Return what to keep of each group, with its duplicates; of a large group, part by part."""
    found: list[tuple[Memory, list[Memory]]] = []
    for group in groups:
        present = [place for place in group if place in memories]
        for start in range(0, len(present), MOST_GROUP):
            some = present[start : start + MOST_GROUP]
            found += merges_of([memories[place] for place in some], scan.rows(some), threshold)
    return found


def _batches(blocks: Iterable[list[int]], size: int) -> Iterator[list[list[int]]]:
    """Put small blocks together, since each step takes a pause."""
    batch: list[list[int]] = []
    for places in blocks:
        batch.append(places)
        if sum(map(len, batch)) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def _compared(scan: Scan, batch: Sequence[list[int]], threshold: float | None) -> Iterator[_Compared]:
    """Return the pairs of each block that do not differ, tile by tile for a large one."""
    small = _Compared([])
    for places in batch:
        heads = [scan.heads[place] for place in places]
        small.pairs.extend((places[one], places[other]) for one, other in _equal(heads))
        for pairs in near_pairs(scan.rows(places), threshold) if threshold is not None else ():
            alike = [(places[one], places[other]) for one, other in pairs if not differ(heads[one], heads[other])]
            if len(places) < BATCH:
                small.pairs.extend(alike)
            else:
                yield _Compared(alike, len(pairs))
    yield small


def _equal(heads: Sequence[str]) -> list[Pair]:
    """Return pairs of equal texts, each with the first of its kind."""
    first: dict[str, int] = {}
    pairs = []
    for place, head in enumerate(heads):
        known = first.setdefault(" ".join(head.casefold().split()), place)
        if known != place:
            pairs.append((known, place))
    return pairs


def _changed_values(memories: Sequence[Memory]) -> list[tuple[Memory, Memory]]:
    """Return the newest with each of those that give an older value, if it is clear which is the newest."""
    times = [one.created_at for one in memories if one.created_at is not None]
    if len(times) != len(memories) or len(times) < 2 or times.count(max(times)) > 1:
        return []
    newest = memories[times.index(max(times))]
    return [(newest, one) for one in memories if is_changed_value(newest.content, one.content)]
