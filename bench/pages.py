"""Pages of the console over many memories and requests, and answers while somebody reads pages."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count, cycle
from uuid import uuid4

import httpx
from redis.asyncio import Redis
from rich.progress import Progress

from hooks import PreExecutionHook
from worker.adapters.redis.receipts import RedisReceipts
from worker.domain.receipt import Receipt
from worker.settings.service import ServiceSettings

from .callers import Tally
from .corpus import TENANT, messages
from .measure import Check, RangeChart, Result, Series, interleaved
from .options import Options
from .processes import BenchError, Service, running_service, scratch
from .progress import bar
from .stores import make_store

NAME = "pages"
RECORDS, QUICK_RECORDS = 100_000, 200
"""Memories in the store, and requests in the list."""

ROUNDS, QUICK_ROUNDS = 25, 1
SAMPLES = 40
"""Answered requests whose receipts are copied."""

TOGETHER = 32
"""Receipts to write at the same time."""

TURNS = 20
"""Pages to turn before one far down is measured."""

WINDOWS, WINDOW_S, QUICK_WINDOW_S = 4, 15.0, 1.0
"""Stretches of answers without and with a reader of pages, in turn, and the seconds of each."""

RATE, READ_EVERY_S = 5.0, 0.5
DEADLINE_MS = 3000
MAX_MS = 200.0
MAX_RATIO = 1.2
"""How much longer 95 of 100 answers may take while pages are read."""

ALONE, READING = "answers", "answers while two pages a second are opened"

Fetch = Callable[[str], Awaitable[httpx.Response]]


@dataclass(slots=True)
class Found:
    """Milliseconds of each page, and the answers without and with a reader."""

    pages: dict[str, list[float]]
    answers: dict[str, Tally] = field(default_factory=lambda: {ALONE: Tally(), READING: Tally()})


def run(options: Options, progress: Progress) -> Result:
    records = QUICK_RECORDS if options.quick else RECORDS
    with scratch() as data_dir:
        make_store(data_dir, records, options.out / "cache", progress)
        with running_service(data_dir, "--model", "none", "--http", "--http-port", "0") as service:
            return _result(asyncio.run(_measure(service, records, options, progress)), records)


async def _measure(service: Service, records: int, options: Options, progress: Progress) -> Found:
    if service.http is None:
        raise BenchError("the service does not serve HTTP")
    async with (
        PreExecutionHook(service.url) as hook,
        httpx.AsyncClient(base_url=service.http, follow_redirects=True, timeout=30) as client,
    ):
        asker = _Asker(hook)
        for _ in range(SAMPLES):
            await asker.ask(Tally(), time.perf_counter())
        await _copy_receipts(service.url, records, progress)
        fetch = _fetching(client)
        pages = await _pages(fetch)
        found = Found({name: [] for name in pages})
        rounds = QUICK_ROUNDS if options.quick else ROUNDS
        with bar(progress, NAME, rounds * len(pages)) as advance:
            for name in interleaved(tuple(pages), rounds):
                start = time.perf_counter()
                await fetch(pages[name])
                found.pages[name].append((time.perf_counter() - start) * 1000)
                advance()
        windows, seconds = (1, QUICK_WINDOW_S) if options.quick else (WINDOWS, WINDOW_S)
        for _ in range(windows):
            await _beside(asker, fetch, list(pages.values()), found, seconds)
    return found


class _Asker:
    """Sends requests for memory, each with a new message in a new session."""

    def __init__(self, hook: PreExecutionHook) -> None:
        self._hook = hook
        self._texts = messages()
        self._numbers = count(1)
        self._random = random.Random(11)

    async def ask(self, tally: Tally, due: float) -> None:
        request = {"session_id": f"page {next(self._numbers)}", "message": next(self._texts)}
        result = await self._hook({**request, "scope": {"tenant": TENANT}, "deadline_ms": DEADLINE_MS})
        tally.add(result, (time.perf_counter() - due) * 1000)

    async def during(self, seconds: float, tally: Tally) -> None:
        """Send requests at random times, whatever has become of earlier ones."""
        end, sent = time.perf_counter() + seconds, []
        while (due := time.perf_counter()) < end:
            sent.append(asyncio.create_task(self.ask(tally, due)))
            await asyncio.sleep(self._random.expovariate(RATE))
        await asyncio.gather(*sent)


async def _copy_receipts(url: str, number: int, progress: Progress) -> None:
    """Fill the list of requests with copies of the receipts that are there, as if they had come one after the other."""
    redis: Redis = Redis.from_url(url)
    try:
        receipts = RedisReceipts(redis, ServiceSettings().receipt_ttl_s)
        samples = cycle((await receipts.recent(TENANT, SAMPLES)).receipts)
        with bar(progress, f"{number:,} requests", -(-number // TOGETHER)) as advance:
            for start in range(0, number, TOGETHER):
                batch = (_copy(next(samples), place) for place in range(start, min(number, start + TOGETHER)))
                await asyncio.gather(*map(receipts.write, batch))
                advance()
    finally:
        await redis.aclose()


def _copy(receipt: Receipt, place: int) -> Receipt:
    request = receipt.request.model_copy(update={"session_id": f"copy {place}"})
    at = receipt.at - timedelta(seconds=place % 86_400)
    return receipt.model_copy(update={"id": uuid4().hex, "at": at, "request": request})


def _fetching(client: httpx.AsyncClient) -> Fetch:
    async def fetch(path: str) -> httpx.Response:
        response = await client.get(path)
        if response.status_code != 200:
            raise BenchError(f"the page {path} answered {response.status_code}")
        return response

    return fetch


async def _pages(fetch: Fetch) -> dict[str, str]:
    """Return the addresses by what they show."""
    scope = f"tenant={TENANT}"
    request = (await fetch(f"/requests.json?{scope}")).json()["rows"][0]["id"]
    memory = (await fetch(f"/memories.json?{scope}")).json()["rows"][0]["id"]
    return {
        "overview": f"/?{scope}",
        "requests": f"/requests?{scope}",
        f"requests, page {TURNS}": await _further(fetch, f"/requests.json?{scope}"),
        "one request": f"/requests/{request}?{scope}",
        "one request, asked about a memory": f"/requests/{request}?{scope}&memory={memory}",
        "memories": f"/memories?{scope}",
        f"memories, page {TURNS}": await _further(fetch, f"/memories.json?{scope}"),
        "memories, search": f"/memories?{scope}&q=who+looks+after+the+harbour+lights",
        "one memory": f"/memory?{scope}&id={memory}",
        "settings": f"/settings?{scope}",
        "history of settings": f"/settings/history?{scope}",
        "evaluations": f"/playground/evaluations?{scope}",
        "playground": f"/playground?{scope}",
        "captures to review": f"/review?{scope}",
    }


async def _further(fetch: Fetch, path: str) -> str:
    """Turn pages, and return the address of the last one."""
    address = path
    for _ in range(TURNS - 1):
        cursor = (await fetch(address)).json()["cursor"]
        if cursor is None:
            break
        address = str(httpx.URL(path).copy_merge_params({"cursor": cursor}))
    return address.replace(".json", "", 1)


async def _beside(asker: _Asker, fetch: Fetch, addresses: list[str], found: Found, seconds: float) -> None:
    """Let answers come alone, then beside a reader of pages."""
    await asker.during(seconds, found.answers[ALONE])
    reading = asyncio.create_task(_read(fetch, addresses))
    await asker.during(seconds, found.answers[READING])
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading


async def _read(fetch: Fetch, addresses: list[str]) -> None:
    for address in cycle(addresses):
        await asyncio.gather(fetch(address), asyncio.sleep(READ_EVERY_S))


def _result(found: Found, records: int) -> Result:
    pages = [Series.of(name, spent) for name, spent in found.pages.items()]
    answers = [Series.of(name, tally.spent) for name, tally in found.answers.items()]
    alone, reading = answers
    slowest = max(pages, key=lambda series: series.p50)
    return Result(
        name=NAME,
        title="Pages of the console",
        method=(
            f"One service without a model, {records:,} memories and {records:,} requests in its list, copies of "
            f"{SAMPLES} real ones. Pages in shuffled order, one after the other, from the request to the last byte. "
            f"Then answers to {RATE:.0f} requests a second at random times, without and with a reader who opens two "
            "pages a second, in turn."
        ),
        checks=(
            Check(name=f"slowest page, {slowest.name}, p50", measured=round(slowest.p50, 1), limit=MAX_MS),
            Check(
                name="answers while pages are opened, p95 as a multiple of that without",
                measured=round(reading.p95 / alone.p95, 2),
                limit=MAX_RATIO,
                unit="times",
            ),
        ),
        series=(*pages, *answers),
        notes=(_unanswered(found.answers),),
        ranges=(RangeChart(name="pages", title="Time of a page", series=tuple(found.pages)),),
    )


def _unanswered(answers: Mapping[str, Tally]) -> str:
    return "Unanswered: " + ", ".join(f"{tally.lost} of {name}" for name, tally in answers.items()) + "."
