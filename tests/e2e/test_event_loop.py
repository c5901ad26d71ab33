"""The worker's event loop stays free while it waits for a slow model and an import runs.

What is measured: the way of a request that the worker skips (queue, event loop, answer; no embedding, no search, no
model), sent 20 times a second. Per second the worst one counts, and of those the median: it stays below 50 ms where
the cores are the test's own. Other processes on them can only make it worse, so the best of three rounds counts, and
what the same requests take beforehand is allowed for.
"""

import asyncio
import json
import logging
import os
import statistics
import time
import uuid
from pathlib import Path

import pytest

from hooks import Outcome, PreExecutionHook
from hooks.protocol.wire import INJECT
from hooks.queue import QueueClient
from tests.support.stack import (
    FACTS,
    INVOICES,
    MIGRATION,
    NOISE_S,
    ModelServer,
    Stack,
    ask,
    ask_until,
    fact,
    put,
    running_stack,
)

RATE = 20
LAG_S = 0.050
MOST_ALLOWANCE_S = 0.300
"""Most that is allowed for what the requests take beforehand."""

BUSY = 3
"""Processes per core, over the last minute, from which a long lag says nothing."""

OLLAMA = "ollama_chat/not-in-any-list"
"""A model of which nothing is known but what its server says."""

MEMORIES = 300
ROUNDS = 3


async def lag_until(url: str, end: "asyncio.Future[object]") -> float:
    """Send probes until `end` is done, whatever became of those before; the median of each second's worst.

    The queue is asked directly, with more patience than the hook's, so that a slow answer is measured and not given up.
    """
    queue = QueueClient(url)

    async def probe() -> float:
        request = {"session_id": uuid.uuid4().hex, "message": MIGRATION, "source": "heartbeat"}
        started = time.monotonic()
        reply = await queue.ask(INJECT, request, budget=10.0, ack_timeout=5.0)
        assert reply.body["outcome"] == Outcome.SKIPPED
        return time.monotonic() - started

    probes: list[asyncio.Task[float]] = []
    while not end.done() or len(probes) < RATE:
        probes.append(asyncio.create_task(probe()))
        await asyncio.sleep(1 / RATE)
    seconds = await asyncio.gather(*probes)
    await queue.aclose()
    return statistics.median(max(seconds[start : start + RATE]) for start in range(0, len(seconds) - RATE + 1, RATE))


async def ask_while(running: "asyncio.Future[object]", hook: PreExecutionHook, pause: float, **fields: str) -> None:
    while not running.done():
        await ask(hook, INVOICES, **fields)
        await asyncio.sleep(pause)


async def round_with_import(hook: PreExecutionHook, service: Stack, file: Path) -> float:
    """The lag while memories are imported, a model call is waited for and deterministic requests come in."""
    arguments = ("import", str(file), "--tenant", uuid.uuid4().hex, "--json")
    importing = asyncio.create_task(asyncio.to_thread(service.command, *arguments))
    lag, *_ = await asyncio.gather(
        lag_until(service.url, importing),
        ask_while(importing, hook, 0.0),
        ask_while(importing, hook, 0.2, mode="deterministic"),
    )
    assert json.loads((await importing).stdout)["created"] == MEMORIES
    return lag


async def assert_free(hook: PreExecutionHook, service: Stack, folder: Path) -> None:
    """The least lag of several rounds is below the limit, as far as the machine lets anything be measured."""
    file = folder / "memories.jsonl"
    lines = [json.dumps(fact(f"n{number}", f"Fact {number} of the long list")) for number in range(MEMORIES)]
    file.write_text("\n".join(lines), encoding="utf-8")
    calm = await lag_until(service.url, asyncio.ensure_future(asyncio.sleep(3.0)))
    allowed = LAG_S + NOISE_S + min(3 * calm, MOST_ALLOWANCE_S)
    lags: list[float] = []
    while len(lags) < ROUNDS and min(lags, default=allowed) >= allowed:
        lags.append(await round_with_import(hook, service, file))
    measured = f"worst of a second: {lags} s, {calm:.3f} s beforehand"
    logging.getLogger(__name__).info(measured)
    if min(lags) >= allowed and os.getloadavg()[0] > BUSY * (os.cpu_count() or 1):
        pytest.skip(f"other processes keep the cores too busy to measure: {measured}")
    assert min(lags) < allowed, measured


async def test_neither_a_slow_model_nor_an_import_blocks_the_worker(
    service: Stack, hook: PreExecutionHook, model: ModelServer, tmp_path: Path
) -> None:
    model.behave(delay=1.0)
    await assert_free(hook, service, tmp_path)
    await ask_until(hook, INVOICES, within=5.0, mode="deterministic")


async def test_nor_does_an_ollama_that_never_says_what_its_model_can_do(model: ModelServer, tmp_path: Path) -> None:
    """Its `/api/show` hangs; litellm would ask it in a call that blocks, with nothing around it that could end it."""
    model.behave(delay=1.0, show_delay=60.0)
    options = ("--model", OLLAMA, "--model-api-base", model.url)
    with running_stack(tmp_path / "service", "up", *options) as service:
        await put(service.url, FACTS)
        asked = len(model.chats())
        async with PreExecutionHook(service.url) as hook:
            await assert_free(hook, service, tmp_path)
            await ask_until(hook, INVOICES, within=5.0, mode="deterministic")
        assert len(model.chats()) > asked
